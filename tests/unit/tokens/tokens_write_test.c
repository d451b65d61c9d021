/* Are token files made from texts right, and is nothing left behind when making one fails? */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/err.h"

#include <test.h>

#include "file_faults.h"
#include "host/host.h"
#include "tokens/inspect.h"
#include "tokens/write.h"

#include "token_file.h"

static char folder[] = "/tmp/weft-write-XXXXXX";
static char a_txt[256], b_txt[256], train_bin[256], valid_bin[256];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(a_txt, sizeof a_txt, "%s/a.txt", folder);
    snprintf(b_txt, sizeof b_txt, "%s/b.txt", folder);
    snprintf(train_bin, sizeof train_bin, "%s/train.bin", folder);
    snprintf(valid_bin, sizeof valid_bin, "%s/valid.bin", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(a_txt);
    unlink(b_txt);
    unlink(train_bin);
    unlink(valid_bin);
    return rmdir(folder);
}

static unsigned char letter(uint64_t i)
{
    return (unsigned char)((i * 2654435761u) >> 13);
}

/* Bytes first .. first + n - 1 of an endless text. */
static void put_text(const char *path, uint64_t first, uint64_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (uint64_t i = 0; i < n; i++)
        assert_true(fputc(letter(first + i), f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* The tokenizer of the build whose tokens are bytes. */
static const data_tokenizer *bytes_tokenizer(void)
{
    static const char *const ifaces[] = {"weft.tokenizer/1", NULL};
    static host *h; /* one of the process */
    static data_tokenizer t;
    const host_component *c;
    if (h)
        return &t;
    assert_int_equal(host_create(NULL, &h), WEFT_OK);
    assert_int_equal(host_find(h, "tokenizer", "bytes", ifaces, &c), WEFT_OK);
    assert_int_equal(host_open(h, c), WEFT_OK);
    assert_int_equal(data_tokenizer_open(c, NULL, &t), WEFT_OK);
    return &t;
}

static bool documents; /* what is written has an index */

static weft_status write_with(const data_tokenizer *t, const char *const *texts, uint32_t n,
                              const char *train, const char *valid, uint64_t *ntrain,
                              uint64_t *nvalid)
{
    const tokens_request r = {.texts = texts,
                              .n = n,
                              .train = train,
                              .valid = valid,
                              .tokenizer = t,
                              .replace = true,
                              .documents = documents};
    return tokens_write(&r, ntrain, nvalid);
}

static weft_status write_bytes(const char *const *texts, uint32_t n, const char *train,
                               const char *valid, uint64_t *ntrain, uint64_t *nvalid)
{
    return write_with(bytes_tokenizer(), texts, n, train, valid, ntrain, nvalid);
}

/* The referee: token t of an output is byte number t among those whose block is its own. */
static void check_output(const char *path, bool valid, bool split, uint64_t bytes)
{
    contents f = read_file(path);
    assert_int_equal(f.word[1], 1);
    assert_int_equal(f.word[3], 256);
    uint64_t t = 0;
    for (uint64_t i = 0; i < bytes; i++)
        if (!split || valid == (i / 4096 % 20 == 19)) {
            assert_true(t < f.count);
            assert_int_equal(f.token[t], letter(i));
            t++;
        }
    assert_int_equal(t, f.count);
    free(f.token);
}

/* --- a tokenizer of this test: words of up to three bytes, so that pieces matter --- */

static uint64_t max_waiting; /* bytes that were left for later */

static weft_status threes(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    (void)t;
    const bool last = a->flags & WEFT_TEXT_LAST;
    *used = *n = 0;
    while (*n < a->room && *used < a->bytes && (last || a->bytes - *used >= 3)) {
        uint32_t id = 0, k = 0;
        for (; k < 3 && *used < a->bytes; k++)
            id = id * 256 + (unsigned char)a->text[(*used)++];
        a->out[(*n)++] = (int32_t)(id + (k == 3 ? 70000 : 0));
    }
    max_waiting = a->bytes - *used > max_waiting ? a->bytes - *used : max_waiting;
    return WEFT_OK;
}

static weft_status lazy(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    (void)t, (void)a;
    *used = *n = 0;
    return WEFT_OK;
}

static weft_status greedy(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    (void)t;
    a->out[0] = 300;
    *used = a->bytes;
    *n = 1;
    return WEFT_OK;
}

static weft_status beyond(weft_tokenizer *t, const weft_encode_args *a, uint64_t *used, uint64_t *n)
{
    (void)t;
    *used = a->bytes + 1;
    *n = 1;
    a->out[0] = 0;
    return WEFT_OK;
}

static const data_tokenizer *with(weft_status (*encode)(weft_tokenizer *, const weft_encode_args *,
                                                        uint64_t *, uint64_t *),
                                  uint32_t vocab, uint32_t end)
{
    static weft_tokenizer_table table;
    static const host_component c = {.name = "own", .table = &table};
    static data_tokenizer t;
    table = (weft_tokenizer_table){.struct_size = sizeof table, .encode = encode};
    t = (data_tokenizer){&c, NULL, {.struct_size = sizeof t.info, .vocab = vocab, .end = end}};
    return &t;
}

static uint64_t put_threes(uint32_t *to, uint64_t at, uint64_t end)
{
    uint64_t n = 0;
    for (; at < end; n++) {
        const uint64_t stop = end - at < 3 ? end : at + 3;
        uint32_t id = stop - at == 3 ? 70000 : 0, word = 0;
        while (at < stop)
            word = word * 256 + letter(at++);
        to[n] = id + word;
    }
    return n;
}

/* Encoding goes on over blocks, and begins anew where the output changes or a text ends. */
TEST(pieces_are_encoded_as_a_whole)
{
    enum { FIRST = 50000, SECOND = 61000, BLOCK = 4096, END = 16900000 };
    static uint32_t want[2][FIRST + SECOND];
    uint64_t n[2] = {0}, from = 0, train, valid;
    put_text(a_txt, 0, FIRST);
    put_text(b_txt, FIRST, SECOND);
    for (uint64_t i = 1; i <= FIRST + SECOND; i++) {
        const bool last = (i - 1) / BLOCK % 20 == 19, next = i / BLOCK % 20 == 19;
        if (i == FIRST || i == FIRST + SECOND || last != next) {
            n[last] += put_threes(want[last] + n[last], from, i);
            from = i;
        }
        if (i == FIRST || i == FIRST + SECOND)
            want[last][n[last]++] = END;
    }
    const char *texts[] = {a_txt, b_txt};
    assert_int_equal(
        write_with(with(threes, END + 1, END + 1), texts, 2, train_bin, valid_bin, &train, &valid),
        WEFT_OK);
    for (int i = 0; i < 2; i++) {
        contents f = read_file(i ? valid_bin : train_bin);
        assert_int_equal(f.word[1], 2); /* 32 bits, since the vocabulary needs them */
        assert_int_equal(f.word[3], END + 1);
        assert_int_equal(f.count, n[i]);
        assert_int_equal(f.count, i ? valid : train);
        assert_memory_equal(f.token, want[i], n[i] * sizeof *want[i]);
        free(f.token);
    }
}

/* Texts of odd and even lengths, one of them empty, in 16 and 32 bits; and pieces between blocks
 * that are held out. */
TEST(ends_of_documents_are_written)
{
    char c_txt[300];
    snprintf(c_txt, sizeof c_txt, "%s/c.txt", folder);
    const char *texts[] = {a_txt, c_txt, b_txt};
    put_text(a_txt, 0, 50);
    put_text(c_txt, 0, 0);
    put_text(b_txt, 50, 33);
    documents = true;
    assert_int_equal(write_bytes(texts, 3, train_bin, NULL, NULL, NULL), WEFT_OK);
    check_index(train_bin, (const uint64_t[]){50, 83}, 2);
    assert_int_equal(
        write_with(with(threes, 16900001, 16900001), texts, 3, train_bin, NULL, NULL, NULL),
        WEFT_OK);
    check_index(train_bin, (const uint64_t[]){18, 30}, 2);
    put_text(b_txt, 50, 200000);
    assert_int_equal(write_bytes(texts, 3, train_bin, valid_bin, NULL, NULL), WEFT_OK);
    check_index(train_bin, (const uint64_t[]){50, 77824, 155648, 191858}, 4);
    check_index(valid_bin, (const uint64_t[]){4096, 8192}, 2);
    documents = false;
    unlink(c_txt);
    assert_int_equal(files_in(folder), 4);
}

/* A text of several windows: what a call leaves stands in front of what comes next. */
TEST(long_texts_are_encoded_as_a_whole)
{
    enum { BYTES = 1000003, END = 16900000 };
    static uint32_t want[BYTES];
    const uint64_t n = put_threes(want, 0, BYTES);
    uint64_t train;
    put_text(a_txt, 0, BYTES);
    const char *texts[] = {a_txt};
    max_waiting = 0;
    assert_int_equal(write_with(with(threes, END + 1, 0), texts, 1, train_bin, NULL, &train, NULL),
                     WEFT_OK);
    assert_true(max_waiting > 0);
    contents f = read_file(train_bin);
    assert_int_equal(f.count, n);
    assert_memory_equal(f.token, want, n * sizeof *want);
    free(f.token);
}

TEST(lawless_tokenizers_are_named)
{
    const char *texts[] = {a_txt};
    const struct {
        weft_status (*encode)(weft_tokenizer *, const weft_encode_args *, uint64_t *, uint64_t *);
        const char *why;
    } bad[] = {
        {lazy, "uses none of"}, {greedy, "the id 300, outside"}, {beyond, "of 100000 bytes"}};
    put_text(a_txt, 0, 100000);
    unlink(train_bin);
    const int before = files_in(folder);
    for (size_t i = 0; i < 3; i++) {
        err_clear();
        assert_int_equal(
            write_with(with(bad[i].encode, 256, 0), texts, 1, train_bin, NULL, NULL, NULL),
            WEFT_USAGE);
        if (!strstr(err_text(), bad[i].why) || !strstr(err_text(), "tokenizer own"))
            fail_msg("'%s' does not say '%s'", err_text(), bad[i].why);
        assert_int_equal(files_in(folder), before);
    }
}

TEST(texts_become_tokens)
{
    /* The second text starts inside a block, at its edge, and inside one that is for validation. */
    static const uint64_t first[] = {1, 4096, 19 * 4096 + 100, 200000};
    for (size_t i = 0; i < 4; i++) {
        uint64_t second = 100000 + i, train = 0, valid = 0, whole = first[i] + second;
        put_text(a_txt, 0, first[i]);
        put_text(b_txt, first[i], second);
        const char *texts[] = {a_txt, b_txt};
        assert_int_equal(write_bytes(texts, 2, train_bin, valid_bin, &train, &valid), WEFT_OK);
        assert_int_equal(train + valid, whole);
        check_output(train_bin, false, true, whole);
        check_output(valid_bin, true, true, whole);
        assert_int_equal(write_bytes(texts, 2, train_bin, NULL, &train, NULL), WEFT_OK);
        assert_int_equal(train, whole);
        check_output(train_bin, false, false, whole);
    }
    assert_int_equal(files_in(folder), 4);
}

static void request_fails(const char *const *texts, uint32_t n, const char *train,
                          const char *valid, const char *word)
{
    int before = files_in(folder);
    err_clear();
    weft_status st = write_bytes(texts, n, train, valid, NULL, NULL);
    assert_int_equal(st, WEFT_USAGE);
    if (!strstr(err_text(), word))
        fail_msg("'%s' does not speak of '%s'", err_text(), word);
    assert_int_equal(files_in(folder), before);
}

TEST(refuses_lawless_requests)
{
    unlink(train_bin);
    unlink(valid_bin);
    unlink(b_txt);
    put_text(a_txt, 0, 100000);
    char aliased[300];
    snprintf(aliased, sizeof aliased, "%s/./train.bin", folder);
    const char *a[] = {a_txt}, *missing[] = {a_txt, b_txt};
    const char *device[] = {"/dev/zero"};
    request_fails(a, 0, train_bin, NULL, "no text");
    request_fails(missing, 2, train_bin, NULL, "b.txt");
    request_fails(device, 1, train_bin, NULL, "/dev/zero"); /* endless */
    request_fails(a, 1, a_txt, NULL, "replace the text");
    request_fails(a, 1, train_bin, a_txt, "replace the text");
    request_fails(a, 1, train_bin, train_bin, "both");
    request_fails(a, 1, train_bin, aliased, "both");
    request_fails(a, 1, "/dev/null", NULL, "not a regular file");
    request_fails(a, 1, folder, NULL, "not a regular file");
    request_fails(a, 1, "/tmp/weft-no-such-folder/x.bin", NULL, "No such file");
}

TEST(refuses_too_little_text)
{
    const char *a[] = {a_txt};
    put_text(a_txt, 0, 0);
    request_fails(a, 1, train_bin, NULL, "0 bytes");
    put_text(a_txt, 0, 1);
    request_fails(a, 1, train_bin, NULL, "1 bytes");
    put_text(a_txt, 0, 19 * 4096 + 1); /* one token for validation has no target */
    request_fails(a, 1, train_bin, valid_bin, "77826");
    put_text(a_txt, 0, 19 * 4096 + 2);
    uint64_t train, valid;
    assert_int_equal(write_bytes(a, 1, train_bin, valid_bin, &train, &valid), WEFT_OK);
    assert_int_equal(valid, 2);
}

/* Old outputs of 3 bytes stood there; a run that fails must leave both, and nothing else. */
static void check_after_failure(bool ok, uint64_t whole)
{
    struct stat st;
    faults_set(FAULT_NONE, 0, 0, false);
    if (!ok) {
        assert_int_equal(stat(train_bin, &st), 0);
        assert_int_equal(st.st_size, 3);
        assert_int_equal(stat(valid_bin, &st), 0);
        assert_int_equal(st.st_size, 3);
    }
    if (ok) {
        check_output(train_bin, false, true, whole);
        check_output(valid_bin, true, true, whole);
    }
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".tmp"))
            fail_msg("%s was left behind", e->d_name);
    closedir(d);
}

TEST(no_failing_call_leaves_litter)
{
    uint64_t whole = 300000;
    put_text(a_txt, 0, whole);
    const char *a[] = {a_txt};
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    for (int for_ever = 0; for_ever < 2; for_ever++)
        for (long at = 1;; at++) {
            put_text(train_bin, 0, 3);
            put_text(valid_bin, 0, 3);
            faults_set(FAULT_ERROR, at, errors[at % 3], for_ever);
            weft_status st = write_bytes(a, 1, train_bin, valid_bin, NULL, NULL);
            bool hit = faults.calls >= at;
            check_after_failure(st == WEFT_OK, whole);
            assert_int_equal(st == WEFT_OK, !hit);
            if (!hit)
                break;
            assert_true(strlen(err_text()) > 20);
        }
}

TEST(interruptions_and_short_writes_do_no_harm)
{
    uint64_t whole = 300000;
    put_text(a_txt, 0, whole);
    const char *a[] = {a_txt};
    faults_set(FAULT_NONE, 0, 0, false);
    assert_int_equal(write_bytes(a, 1, train_bin, valid_bin, NULL, NULL), WEFT_OK);
    char log[sizeof faults.log];
    assert_int_equal(faults.hasty_renames, 0); /* synced before they were renamed */
    memcpy(log, faults.log, sizeof log);
    for (long at = 1; log[at - 1]; at++) {
        if (log[at - 1] != 'w' && log[at - 1] != 's')
            continue;
        faults_set(FAULT_ERROR, at, EINTR, false);
        assert_int_equal(write_bytes(a, 1, train_bin, valid_bin, NULL, NULL), WEFT_OK);
        check_after_failure(true, whole);
        faults_set(FAULT_SHORT, at, 0, false);
        assert_int_equal(write_bytes(a, 1, train_bin, valid_bin, NULL, NULL), WEFT_OK);
        check_after_failure(true, whole);
    }
}

TEST(full_disk_is_said_in_words)
{
    put_text(a_txt, 0, 300000);
    unlink(train_bin);
    unlink(valid_bin);
    const char *a[] = {a_txt};
    struct rlimit old, small = {100000, 100000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status st = write_bytes(a, 1, train_bin, NULL, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(st, WEFT_IO);
    assert_non_null(strstr(err_text(), "File too large"));
    assert_int_equal(access(train_bin, F_OK), -1);
    assert_int_equal(files_in(folder), 1); /* the text */
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
