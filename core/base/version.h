/* base/version.h: the version of a file format.
 *
 * Every format that is read back has a number that goes up when a program of before could not read
 * it, or would misread it. A file without a number has version 1. A program reads all versions up
 * to its own; version_check() refuses a later one with a sentence that names the format, both
 * numbers and what to do. That is WEFT_UNSUPPORTED and not WEFT_DATA: the file is intact, so a
 * reader that passes damaged files over does not pass this one over. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <stdint.h>

#include <weft/base.h>

/* `format` is a singular with its article: "the checkpoint manifest". Version 0 is WEFT_DATA, since
 * there is none; one above `known` is WEFT_UNSUPPORTED; else WEFT_OK. [any] */
weft_status version_check(const char *format, uint64_t found, uint64_t known);

/* The number behind `prefix` if `text` begins with it, else 1; 0 when no number of at most nine
 * digits is there. `text` need not end with a zero byte. [any] */
uint64_t version_after(const char *text, uint64_t bytes, const char *prefix);

#endif
