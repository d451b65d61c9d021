/* base/version.h: the version of a file format.
 *
 * Every format that is read back has a number, which goes up when an older program could not read
 * the file, or would misread it. A file without one has version 1. A program reads all versions up
 * to its own. A later one is WEFT_UNSUPPORTED, not WEFT_DATA: the file is intact, so a reader that
 * skips damaged files does not skip it. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <stdint.h>

#include <weft/base.h>

/* `format` is a singular with its article: "the checkpoint manifest". Version 0 is WEFT_DATA,
 * because no format has it; a version above `known` is WEFT_UNSUPPORTED; else WEFT_OK. [any] */
weft_status version_check(const char *format, uint64_t found, uint64_t known);

/* The number after `prefix` if `text` begins with it, else 1; 0 if the prefix is not followed by a
 * number of at most nine digits. `text` need not end with a zero byte. [any] */
uint64_t version_after(const char *text, uint64_t bytes, const char *prefix);

#endif
