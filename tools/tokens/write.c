/* tokens/write.c: see write.h.
 *
 * The texts become ids first (text/encode.h), then these become files. Both outputs are complete
 * and synced before either is renamed, so a failure of any kind leaves the old files as they were
 * (output.h). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "data/file.h"
#include "tokens/output.h"
#include "tokens/write.h"

typedef struct job {
    tokens_output *train, *valid; /* valid NULL: not wanted */
    tokens_text_list texts;
    uint64_t text;   /* bytes of text */
    sigset_t before; /* signals that were blocked */
} job;

/* Where ids go. */
typedef struct target {
    tokens_output *to;
    const sigset_t *ends;
} target;

/* Two names of one place, whether or not a file is there yet: same last part, same folder. */
static bool same_place(const char *a, const char *b)
{
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    const char *last_a = slash_a ? slash_a + 1 : a, *last_b = slash_b ? slash_b + 1 : b;
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    if (strcmp(last_a, last_b) || last_a - a >= PATH_MAX - 1 || last_b - b >= PATH_MAX - 1)
        return false;
    snprintf(folder_a, sizeof folder_a, "./%.*s", (int)(last_a - a), a);
    snprintf(folder_b, sizeof folder_b, "./%.*s", (int)(last_b - b), b);
    struct stat st;
    return stat(*a == '/' ? folder_a + 2 : folder_a, &st) == 0 &&
           data_file_is(*b == '/' ? folder_b + 2 : folder_b, &st);
}

/* The folder of the output is there and may be written: known before hours of work. */
static bool can_make(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash)
        return !access(".", W_OK | X_OK);
    const int n = snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    if (n < 0 || n >= (int)sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    return !access(folder, W_OK | X_OK);
}

/* An output may be new or, if that is wanted, replace a regular file, but not a text, a folder or a
 * device. */
static weft_status check_output(const char *path, bool replace, const tokens_text_list *texts)
{
    struct stat st;
    if (!can_make(path))
        return err_fail_errno(data_file_status(errno), "cannot write data file %s", path);
    if (stat(path, &st) < 0) {
        if (errno == ENOENT)
            return WEFT_OK;
        return err_fail_errno(data_file_status(errno), "cannot write data file %s", path);
    }
    if (!S_ISREG(st.st_mode))
        return err_fail(WEFT_USAGE,
                        "cannot write data file %s: it exists and is not a regular file", path);
    for (uint32_t i = 0; i < texts->n; i++)
        if (data_file_is(texts->at[i].path, &st))
            return err_fail(WEFT_USAGE, "data file %s would replace the text that it is made from",
                            path);
    return replace ? WEFT_OK
                   : err_fail(WEFT_USAGE,
                              "data file %s exists and is not replaced; give another name, or "
                              "--force",
                              path);
}

static weft_status check_request(const tokens_request *r, tokens_text_list *texts)
{
    if (!r->n)
        return err_fail(WEFT_USAGE, "no text was given to make data file %s from", r->train);
    weft_status st = tokens_text_list_make(r->texts, r->n, texts);
    struct stat there;
    if (st == WEFT_OK && r->valid &&
        (same_place(r->train, r->valid) ||
         (stat(r->train, &there) == 0 && data_file_is(r->valid, &there))))
        return err_fail(WEFT_USAGE, "training and validation data are both to be written to %s",
                        r->train);
    if (st == WEFT_OK)
        st = check_output(r->train, r->replace, texts);
    return st != WEFT_OK || !r->valid ? st : check_output(r->valid, r->replace, texts);
}

static weft_status put_ids(void *ctx, const int32_t *ids, uint64_t n)
{
    const target *t = ctx;
    sigset_t waiting;
    if (!sigpending(&waiting) && !sigandset(&waiting, &waiting, t->ends) &&
        !sigisemptyset(&waiting))
        return err_fail(WEFT_IO, "interrupted by a signal");
    return tokens_output_add(t->to, ids, n);
}

static weft_status end_document(void *ctx)
{
    return tokens_output_end_document(((const target *)ctx)->to);
}

/* A window needs a token and its target, so each file needs two. */
static weft_status check_amount(const job *j, const tokens_request *r)
{
    const uint64_t train = tokens_output_tokens(j->train);
    const uint64_t valid = j->valid ? tokens_output_tokens(j->valid) : train;
    const uint64_t fewest = valid < train ? valid : train;
    uint64_t need = j->valid ? (DATA_VALID_EVERY - 1) * DATA_BLOCK + 2 : 2;
    if (j->text >= need && fewest < 2)
        return err_fail(WEFT_USAGE,
                        "%s would have %" PRIu64 " tokens of the %" PRIu64
                        " bytes of text; it needs at least 2",
                        valid < train ? r->valid : r->train, fewest, j->text);
    if (j->text >= need)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "the text has %" PRIu64 " bytes; %s needs at least %" PRIu64
                    " (every %uth block of %u bytes is for validation)",
                    j->text, j->valid ? r->valid : r->train, need, DATA_VALID_EVERY, DATA_BLOCK);
}

static weft_status write_outputs(job *j, const tokens_request *r, tokens_spool *ids)
{
    const uint32_t vocab = r->tokenizer->info.vocab;
    weft_status st = tokens_output_open(r->train, vocab, r->documents, &j->train);
    if (st == WEFT_OK && r->valid)
        st = tokens_output_open(r->valid, vocab, r->documents, &j->valid);
    target train = {j->train, &r->ends}, valid = {j->valid, &r->ends};
    if (st == WEFT_OK)
        st = tokens_spool_each(ids, false, put_ids, end_document, &train);
    if (st == WEFT_OK && j->valid)
        st = tokens_spool_each(ids, true, put_ids, end_document, &valid);
    if (st == WEFT_OK)
        st = check_amount(j, r);
    if (st == WEFT_OK)
        st = tokens_output_finish(j->train);
    if (st == WEFT_OK && j->valid)
        st = tokens_output_finish(j->valid);
    if (st == WEFT_OK)
        st = tokens_output_rename(j->train);
    return st == WEFT_OK && j->valid ? tokens_output_rename(j->valid) : st;
}

static weft_status write_all(job *j, const tokens_request *r)
{
    static const tokens_text_options usual = {.field = "text"};
    tokens_spool *ids = NULL;
    weft_status st = check_request(r, &j->texts);
    if (st == WEFT_OK)
        st = tokens_text_encode(&j->texts, r->tokenizer, r->options ? r->options : &usual, r->train,
                                r->replace, r->valid != NULL, &ids, &j->text);
    pthread_sigmask(SIG_BLOCK, &r->ends, &j->before);
    if (st == WEFT_OK)
        st = write_outputs(j, r, ids);
    tokens_spool_close(ids, st == WEFT_IO);
    return st;
}

weft_status tokens_write(const tokens_request *r, uint64_t *train_tokens, uint64_t *valid_tokens)
{
    job *j = mem_alloc(sizeof *j);
    weft_status st = write_all(j, r);
    if (st == WEFT_OK && train_tokens)
        *train_tokens = tokens_output_tokens(j->train);
    if (st == WEFT_OK && valid_tokens)
        *valid_tokens = j->valid ? tokens_output_tokens(j->valid) : 0;
    tokens_output_close(j->train, st == WEFT_OK);
    tokens_output_close(j->valid, st == WEFT_OK);
    pthread_sigmask(SIG_SETMASK, &j->before, NULL);
    tokens_text_list_free(&j->texts);
    free(j);
    return st;
}
