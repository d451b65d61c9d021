/* weft/data.h: sources of training data, "weft.data/1", and tokenizers, "weft.tokenizer/1".
 *
 * A batch counts samples ([train] batch). A sample has rows: the tokens of a text, the patches of
 * an image, or one. A source gives fields, each with a type and a shape for one row: "tokens" is
 * WEFT_I32 [], "pixels" may be WEFT_F32 [784]. In the graph the field is the input of its name,
 * [tokens, shape of a row...], where the axis "tokens" runs over the rows of all samples in order.
 * The core adds two inputs of its own, "positions" (number of the row in its sample, from 0) and
 * those that graph.h lists; a source has no field of such a name.
 *
 * What training sees depends on (source, its options, seed, number of the sample) alone, so it is
 * the same on every layout and after every resume. A source therefore has no position: read() is
 * asked for samples by number, each rank asks for its own, and no sample is asked for in order.
 * Sources that are streams by nature cut them into samples at places that they can find again.
 *
 * A source that reads text takes a tokenizer of the job, which it opens by name through
 * "weft.host.component/1" (host.h). Both kinds are opened on every rank, `weft plan` included
 * where the data is on that machine: opening reads headers, never whole files.
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include <weft/graph.h>
#include <weft/plugin.h>

WEFT_EXTERN_C_BEGIN

/* --- Sources --- */

/* A field. Passed in arrays: never grows. The strings live until the data set is closed. */
typedef struct weft_field {
    const char *name; /* of the input: "tokens", "targets", "pixels"; a-z, 0-9, '_' */
    const char *help; /* one line */
    uint32_t dtype;   /* of what read() writes: WEFT_I32, WEFT_U8, WEFT_F32 */
    uint32_t rank;    /* axes of one row, at most WEFT_MAX_AXES - 1; 0: one number a row */
    uint32_t flags, reserved;
    weft_axis axes[WEFT_MAX_AXES - 1];
} weft_field;
WEFT_FREEZE(weft_field, axes, 144);

typedef struct weft_dataset weft_dataset; /* opaque, the source's: one open set */

#define WEFT_DATA_TRAIN 1u /* samples 0, 1, 2, ... without end, in an order that the seed gives */
#define WEFT_DATA_VALID 2u /* samples 0 .. info.samples - 1, each once, in a fixed order */

typedef struct weft_data_args {
    uint32_t struct_size, flags;
    uint32_t use; /* WEFT_DATA_... */
    uint32_t reserved;
    uint64_t seed;         /* run.seed */
    const weft_conf *conf; /* [data]; a source that declares the option "tokenizer", whose default
                              is "bytes", finds the name of the job's tokenizer there */

    /* Since 0.10: the identity that the data of the checkpoint had from which the job goes on,
     * where it is not what info() gave just now, "" where it has none; else NULL. A source that
     * samples in another way since then gives the samples of then, and that identity, if the
     * options leave it the choice. One that does not know this member refuses the call, and keeps
     * the set that was opened without it. */
    const char *resumes;
} weft_data_args;
WEFT_FREEZE(weft_data_args, resumes, 40);

/* What a set has. */
typedef struct weft_data_info {
    uint32_t struct_size, flags;
    uint64_t samples; /* of `sequence` rows that can be cut without overlap; at least 1. A source of
                         WEFT_DATA_TRAIN that would have to read everything may estimate it */
    uint64_t rows;    /* rows of a sample where the data has them: 1 for vectors. 0: any number, the
                         job asks for train.sequence */
    uint32_t vocab;   /* ids of tokens or classes are below it; 0: there are none */
    uint32_t nfields;
    const weft_field *fields; /* [nfields]; lives until close() */

    /* One line that differs where what training sees differs: sizes, options that change samples,
     * digests of headers and of places that are spread over the content; paths are not in it. Ranks
     * compare it at the start; checkpoints record it, and a job resumes with the same alone. A
     * later version of a source may append to the line, behind ", ". Lives until close(). */
    const char *identity;
} weft_data_info;
WEFT_FREEZE(weft_data_info, identity, 48);

typedef struct weft_read_args {
    uint32_t struct_size, flags;
    uint64_t first, count; /* samples */
    uint64_t sequence;     /* rows of each; info.rows where that is not 0 */
    uint32_t nfields;      /* those of info(), in its order */
    uint32_t reserved;
    void *const *out; /* [nfields] memory for count * sequence rows of each; NULL: not wanted */
} weft_read_args;
WEFT_FREEZE(weft_read_args, out, 48);

/* A set is entered by one thread at a time; two sets of one module may be entered by two. */
typedef struct weft_data_table {
    uint32_t struct_size, flags;

    /* Open what the options name for this use. *out is NULL, with WEFT_OK, where the job names
     * nothing for it (no validation set). Missing and damaged files are an error with their name.
     * [setup] */
    weft_status (*open)(void *module, const weft_data_args *args, weft_dataset **out);
    void (*close)(weft_dataset *d); /* NULL allowed [setup] */

    /* Describe the set for samples of `sequence` rows; 0: not known yet, and samples is that of one
     * row. Fields, rows and vocabulary are the same every time; so is what read() gives for
     * `sequence` rows. A set that has not one such sample is WEFT_USAGE. [setup] */
    weft_status (*info)(weft_dataset *d, uint64_t sequence, weft_data_info *out);

    /* Write the samples, of as many rows as the last info() was asked for. May read files, and
     * takes its memory in open() and info(). Damaged content is WEFT_DATA with its place; an id
     * that is not below info.vocab is never handed out. Between steps, on the thread that walks the
     * lists. [setup] [compute] */
    weft_status (*read)(weft_dataset *d, const weft_read_args *args);
} weft_data_table;
WEFT_FREEZE(weft_data_table, read, 40);

/* --- Tokenizers --- */

typedef struct weft_tokenizer weft_tokenizer; /* opaque, the plugin's: one loaded vocabulary */

/* Text may be changed before it is encoded: case, spaces, Unicode forms, bytes that are not UTF-8.
 */
#define WEFT_TOKENIZER_NORMALIZES 1u
#define WEFT_TOKENIZER_FIRST 2u /* encode() and decode() know WEFT_TEXT_FIRST */

typedef struct weft_tokenizer_info {
    uint32_t struct_size, flags; /* WEFT_TOKENIZER_... */
    uint32_t vocab;              /* ids are below it; at least 1 */
    uint32_t begin;              /* id that begins a text, plus 1; 0: it has none */
    uint32_t end;                /* id that ends a text, plus 1; 0: it has none */
    uint32_t reserved;
    const char *identity; /* one line that differs where the vocabulary or the rules differ */
} weft_tokenizer_info;
WEFT_FREEZE(weft_tokenizer_info, identity, 32);

#define WEFT_TEXT_LAST 1u    /* no text follows: encode all of it */
#define WEFT_TEXT_SPECIAL 2u /* names of special tokens in the text ("<|endoftext|>") are them */

/* The text begins here, it is not a later part of one: what this tokenizer puts in front of a text,
 * such as a space, is put there, and decode() takes it away from the first id. Without the flag
 * nothing is added or taken away. Only for tokenizers with WEFT_TOKENIZER_FIRST. */
#define WEFT_TEXT_FIRST 4u

/* Text to ids. The text is bytes, which need not be UTF-8: every byte string can be encoded. */
typedef struct weft_encode_args {
    uint32_t struct_size, flags; /* WEFT_TEXT_... */
    const char *text;
    uint64_t bytes;
    int32_t *out; /* [room] */
    uint64_t room;
} weft_encode_args;
WEFT_FREEZE(weft_encode_args, room, 40);

typedef struct weft_decode_args {
    uint32_t struct_size, flags; /* WEFT_TEXT_FIRST */
    const int32_t *ids;
    uint64_t n;
    char *out; /* [room] bytes, without a terminating zero */
    uint64_t room;
} weft_decode_args;
WEFT_FREEZE(weft_decode_args, room, 40);

typedef struct weft_tokenizer_table {
    uint32_t struct_size, flags;
    weft_status (*open)(void *module, const weft_conf *conf, weft_tokenizer **out); /* [setup] */
    void (*close)(weft_tokenizer *t);                                 /* NULL allowed [setup] */
    weft_status (*info)(weft_tokenizer *t, weft_tokenizer_info *out); /* [any] */

    /* Encode a prefix of the text: *used bytes became *n ids. Without WEFT_TEXT_LAST it stops where
     * text that follows could change an id, so that pieces of a text joined give what the whole
     * gives. With room for one id and WEFT_TEXT_LAST it always uses at least one byte, and without
     * it after at most 64 KiB. [any] */
    weft_status (*encode)(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used,
                          uint64_t *n);

    /* Write the bytes of the ids: *used ids became *bytes bytes. Room for the longest token (1 KiB)
     * is always enough for one. decode(encode(text)) is the text, unless info() has
     * WEFT_TOKENIZER_NORMALIZES. An id that is not below the vocabulary is WEFT_USAGE. [any] */
    weft_status (*decode)(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used,
                          uint64_t *bytes);

    /* *at is the last place in the text, as a number of bytes, at which it may be cut whatever
     * follows: the ids of both parts, one after the other, are those of the whole. 0: none is
     * known. So one text is encoded by several threads. OPT [any] */
    weft_status (*cut)(weft_tokenizer *t, const char *text, uint64_t bytes, uint64_t *at);
} weft_tokenizer_table;
WEFT_FREEZE(weft_tokenizer_table, cut, 56);

WEFT_EXTERN_C_END

#endif
