/* tokens/text/reader.h: texts as a row of parts that are encoded independently of each other.
 *
 * A document is a file, or a record of a file of records. A part is a document, or a piece of one
 * that was cut where the tokenizer says that ids do not change (weft_tokenizer_table.cut). Where it
 * knows no place within DATA_PART_MAX bytes, the text is cut there. Parts depend on the texts
 * alone, so the result does not depend on threads, and a reader can begin at any place that it has
 * given.
 *
 * With a second output every 20th block of 4 KiB of a text goes to it; a record goes as a whole to
 * the output of the block in which it begins. */
#ifndef TOKENS_TEXT_READER_H
#define TOKENS_TEXT_READER_H

#include "tokens/text/list.h"
#include "tokens/tokenizer.h"

#define DATA_BLOCK 4096u       /* bytes of text in a block                   */
#define DATA_VALID_EVERY 20u   /* of so many blocks the last is for `valid` */
#define DATA_PART (256u << 10) /* bytes of a part where a text can be cut   */
#define DATA_PART_MAX (4u << 20)
#define DATA_RECORD_MAX (64u << 20) /* bytes of a line of a file of records */

/* Where a reader stands. Constant layout: it is stored. */
typedef struct tokens_place {
    uint64_t file, offset; /* of unpacked bytes */
    uint64_t line;         /* lines of a file of records that are read */
    uint64_t text;         /* bytes of text before it, of all files */
    uint64_t inside;       /* 1: within a document */
} tokens_place;

typedef struct tokens_part {
    uint64_t from, n; /* in the reader's text */
    bool valid;       /* for the second output */
    bool first, last; /* it begins a document; it ends one */
    bool anew;        /* the next part goes to the other output */
} tokens_part;

typedef struct tokens_reader tokens_reader;

/* Begins at `from`. `list`, `t` and `field` are borrowed. [setup] */
weft_status tokens_reader_open(const tokens_text_list *list, const data_tokenizer *t, bool valid,
                               const char *field, const tokens_place *from, tokens_reader **out);
void tokens_reader_close(tokens_reader *r); /* NULL allowed */

/* The next part and its text, which lives until the next call; *text is NULL at the end of all.
 * Where the tokenizer knows no cut(), a part may begin with text of the part before: *used bytes of
 * it are taken by tokens_reader_take(). [setup] */
weft_status tokens_reader_next(tokens_reader *r, tokens_part *part, const char **text);

/* The first `used` bytes of the part are done; parts of tokenizers with cut() are taken whole. */
void tokens_reader_take(tokens_reader *r, const tokens_part *part, uint64_t used);

/* Where a reader would go on; false within a record, where none can begin. */
bool tokens_reader_place(const tokens_reader *r, tokens_place *out);

/* Bytes of the files themselves that are read, and bytes of text. */
uint64_t tokens_reader_done(const tokens_reader *r);
uint64_t tokens_reader_text(const tokens_reader *r);

#endif
