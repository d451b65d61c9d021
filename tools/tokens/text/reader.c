/* tokens/text/reader.c: see reader.h. */
#include "tokens/text/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "tokens/text/input.h"
#include "tokens/text/record.h"

struct tokens_reader {
    const tokens_text_list *list;
    const data_tokenizer *t;
    const char *field;
    bool valid, cuts;
    uint64_t file, line, before; /* before: bytes of the files in front of this one */
    tokens_input *in;            /* NULL: between files */
    char *text;                  /* text[from..to) of the document is not taken */
    uint64_t from, to, capacity;
    uint64_t offset;  /* of text[from] in the unpacked file; with records, of `raw` */
    uint64_t at;      /* bytes of text that are taken */
    bool open, ended; /* a document is under way; all of it is in `text` */
    bool first, to_valid;
    char *raw; /* of a file of records: raw[raw_from..raw_to) are not yet lines */
    uint64_t raw_from, raw_to, raw_capacity;
    bool raw_ended;
};

weft_status tokens_reader_open(const tokens_text_list *list, const data_tokenizer *t, bool valid,
                               const char *field, const tokens_place *from, tokens_reader **out)
{
    tokens_reader *r = mem_alloc(sizeof *r);
    *r = (tokens_reader){.list = list,
                         .t = t,
                         .field = field,
                         .valid = valid,
                         .cuts = tokens_cuts(t),
                         .file = from->file,
                         .at = from->text};
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; i < from->file && i < list->n; i++)
        r->before += list->at[i].bytes;
    if (from->file < list->n && (from->offset || from->inside)) {
        st = tokens_input_open(&list->at[from->file], &r->in);
        if (st == WEFT_OK)
            st = tokens_input_skip(r->in, from->offset);
        r->offset = from->offset;
        r->line = from->line;
        r->open = from->inside;
    }
    if (st != WEFT_OK)
        tokens_reader_close(r);
    else
        *out = r;
    return st;
}

void tokens_reader_close(tokens_reader *r)
{
    if (!r)
        return;
    tokens_input_close(r->in);
    free(r->text);
    free(r->raw);
    free(r);
}

static bool is_records(const tokens_reader *r)
{
    return r->list->at[r->file].records;
}

/* At least `want` bytes of text, unless the document ends before. */
static weft_status fill_text(tokens_reader *r, uint64_t want)
{
    weft_status st = WEFT_OK;
    if (r->from && r->capacity - r->from < want) {
        memmove(r->text, r->text + r->from, r->to - r->from);
        r->to -= r->from;
        r->from = 0;
    }
    if (r->capacity - r->from < want) {
        r->capacity = 2 * want;
        r->text = mem_grow(r->text, r->capacity);
    }
    while (st == WEFT_OK && !r->ended && r->to - r->from < want) {
        uint64_t n;
        st = tokens_input_read(r->in, r->text + r->to, r->capacity - r->to, &n);
        r->to += n;
        r->ended = !n;
    }
    return st;
}

/* --- records --- */

static weft_status bad_record(const tokens_reader *r, const char *why)
{
    return err_fail(WEFT_DATA, "text %s:%" PRIu64 ": %s", r->list->at[r->file].path, r->line, why);
}

/* The next line, without its end; *n UINT64_MAX: there is none. */
static weft_status next_line(tokens_reader *r, const char **line, uint64_t *n)
{
    uint64_t seen = r->raw_from;
    for (;;) {
        const char *end = seen < r->raw_to ? memchr(r->raw + seen, '\n', r->raw_to - seen) : NULL;
        seen = r->raw_to;
        if (end || (r->raw_ended && seen > r->raw_from)) {
            *line = r->raw + r->raw_from;
            *n = (end ? (uint64_t)(end - r->raw) : seen) - r->raw_from;
            r->raw_from += *n + (end != NULL);
            r->offset += *n + (end != NULL);
            r->line++;
            return WEFT_OK;
        }
        *n = UINT64_MAX;
        if (r->raw_ended)
            return WEFT_OK;
        if (r->raw_to - r->raw_from > DATA_RECORD_MAX) {
            r->line++;
            return bad_record(r, "the line has more than 64 MiB");
        }
        if (r->raw_from) {
            memmove(r->raw, r->raw + r->raw_from, r->raw_to - r->raw_from);
            seen -= r->raw_from;
            r->raw_to -= r->raw_from;
            r->raw_from = 0;
        }
        if (r->raw_capacity - r->raw_to < DATA_PART) {
            r->raw_capacity = 2 * r->raw_capacity + DATA_PART;
            r->raw = mem_grow(r->raw, r->raw_capacity);
        }
        uint64_t got;
        weft_status st = tokens_input_read(r->in, r->raw + r->raw_to, DATA_PART, &got);
        if (st != WEFT_OK)
            return st;
        r->raw_to += got;
        r->raw_ended = !got;
    }
}

/* The text of a record becomes that of the document. */
static weft_status take_record(tokens_reader *r, const char *line, uint64_t n)
{
    char why[256];
    json_t *text = tokens_record_text(line, n, r->field, why);
    r->from = r->to = 0;
    if (!text)
        return bad_record(r, why);
    r->to = json_string_length(text);
    if (r->capacity < r->to) {
        r->capacity = r->to;
        r->text = mem_grow(r->text, r->capacity);
    }
    if (r->to)
        memcpy(r->text, json_string_value(text), r->to);
    json_decref(text);
    return WEFT_OK;
}

static weft_status next_record(tokens_reader *r)
{
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && !r->open) {
        const char *line = NULL;
        uint64_t n;
        st = next_line(r, &line, &n);
        if (st != WEFT_OK || n == UINT64_MAX)
            return st;
        if (strspn(line, " \t\r") >= n && !memchr(line, '{', n))
            continue; /* an empty line */
        st = take_record(r, line, n);
        r->open = st == WEFT_OK && r->to;
    }
    r->ended = true;
    return st;
}

/* --- documents --- */

/* A document with text is under way, or all files are done. */
static weft_status next_document(tokens_reader *r)
{
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && r->file < r->list->n) {
        if (!r->in) {
            st = tokens_input_open(&r->list->at[r->file], &r->in);
            r->offset = r->line = r->raw_from = r->raw_to = r->from = r->to = 0;
            r->raw_ended = r->ended = false;
        }
        if (st == WEFT_OK && is_records(r)) {
            st = next_record(r);
        } else if (st == WEFT_OK && !r->offset) { /* a file is one document */
            st = fill_text(r, 1);
            r->open = st == WEFT_OK && r->to > r->from;
        }
        r->first = r->open;
        if (st != WEFT_OK || r->open)
            return st;
        tokens_input_close(r->in);
        r->in = NULL;
        r->before += r->list->at[r->file++].bytes;
    }
    return st;
}

static bool is_valid(uint64_t at)
{
    return at / DATA_BLOCK % DATA_VALID_EVERY == DATA_VALID_EVERY - 1;
}

/* Bytes from here on that go to one output. */
static uint64_t run_of(const tokens_reader *r)
{
    const uint64_t round = DATA_BLOCK * DATA_VALID_EVERY, at = r->at % round;
    if (!r->valid || is_records(r))
        return UINT64_MAX;
    return is_valid(r->at) ? round - at : round - DATA_BLOCK - at;
}

/* Without the beginning of a character at the end, if it is UTF-8. */
static uint64_t whole_chars(const char *s, uint64_t n)
{
    uint64_t end = n;
    while (end > 1 && n - end < 4 && ((unsigned char)s[end - 1] & 0xc0) == 0x80)
        end--;
    return end > 1 && (unsigned char)s[end - 1] >= 0xc0 ? end - 1 : n;
}

/* Where a run of text that does not fit into a part is cut. */
static weft_status cut(tokens_reader *r, uint64_t run, uint64_t *n)
{
    weft_status st = WEFT_OK;
    *n = 0;
    for (uint64_t want = DATA_PART; st == WEFT_OK && !*n; want *= 2) {
        st = fill_text(r, want + 1);
        const uint64_t have = r->to - r->from < run ? r->to - r->from : run;
        if (st == WEFT_OK && have <= want) { /* the run ends here */
            *n = have;
            return st;
        }
        if (st == WEFT_OK)
            st = tokens_cut(r->t, r->text + r->from, want, n);
        if (!*n && want >= DATA_PART_MAX)
            *n = whole_chars(r->text + r->from, want);
    }
    return st;
}

/* Without cut(): as much as a call of encode() may need. */
static weft_status window(tokens_reader *r, uint64_t run, uint64_t *n)
{
    const weft_status st = fill_text(r, DATA_PART + 1);
    *n = r->to - r->from < run ? r->to - r->from : run;
    *n = *n < DATA_PART ? *n : DATA_PART;
    return st;
}

weft_status tokens_reader_next(tokens_reader *r, tokens_part *part, const char **text)
{
    weft_status st = r->open ? WEFT_OK : next_document(r);
    *text = NULL;
    if (st != WEFT_OK || !r->open)
        return st;
    if (r->first || !is_records(r))
        r->to_valid = r->valid && is_valid(r->at);
    const uint64_t run = run_of(r);
    uint64_t n;
    st = r->cuts ? cut(r, run, &n) : window(r, run, &n);
    if (st == WEFT_OK)
        st = fill_text(r, n + 1);
    if (st != WEFT_OK)
        return st;
    *part = (tokens_part){.from = 0, .n = n, .valid = r->to_valid, .first = r->first};
    part->last = r->ended && r->from + n == r->to;
    part->anew = n == run && !part->last;
    *text = r->text + r->from;
    return WEFT_OK;
}

void tokens_reader_take(tokens_reader *r, const tokens_part *part, uint64_t used)
{
    r->from += used;
    r->at += used;
    r->offset += is_records(r) ? 0 : used;
    r->first = false;
    if (part->last && used == part->n) {
        r->open = false;
        r->from = r->to = 0;
    }
}

bool tokens_reader_place(const tokens_reader *r, tokens_place *out)
{
    const bool records = r->file < r->list->n && is_records(r);
    *out = (tokens_place){r->file, r->in ? r->offset : 0, r->line, r->at, r->open};
    return !records || !r->open;
}

uint64_t tokens_reader_done(const tokens_reader *r)
{
    return r->before + (r->in ? tokens_input_place(r->in) : 0);
}

uint64_t tokens_reader_text(const tokens_reader *r)
{
    return r->at;
}
