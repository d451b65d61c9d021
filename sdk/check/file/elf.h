/* check/file/elf.h: the parts of a shared object that the checks of files read.
 *
 * The bytes are hostile: every offset, count and length is checked against the end. All strings end
 * inside the file. */
#ifndef CHECK_FILE_ELF_H
#define CHECK_FILE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct check_elf {
    const unsigned char *at; /* borrowed */
    size_t bytes;
    const char *why;            /* why it cannot be read; NULL: it can */
    uint64_t headers;           /* offset of the program headers, */
    uint32_t nheaders;          /* and their number */
    uint64_t dynamic, ndynamic; /* offset and entries of the dynamic section */
    uint64_t symbols, nsymbols; /* of its symbol table */
    uint64_t strings, nstrings; /* offset and bytes of its string table */
} check_elf;

/* Read 64-bit little-endian ELF. false: e->why is a sentence. [any] */
bool check_elf_read(check_elf *e, const void *at, size_t bytes);

/* Symbol `i` of the dynamic table: its name; *defined: this object defines it; *global: global or
 * weak, with default visibility; *weak: weak. NULL: no symbol `i`. [any] */
const char *check_elf_symbol(const check_elf *e, uint64_t i, bool *defined, bool *global,
                             bool *weak);

/* The value of the first dynamic entry `tag`; false: none. The text of one that is a string; NULL:
 * none. The text of the k-th such entry. [any] */
bool check_elf_dynamic(const check_elf *e, int64_t tag, uint64_t *value);
const char *check_elf_dynamic_text(const check_elf *e, int64_t tag, uint32_t k);

/* The first program header `type`: flags and bytes in memory; false: none. [any] */
bool check_elf_segment(const check_elf *e, uint32_t type, uint32_t *flags, uint64_t *bytes);

#endif
