/* base/number/crc32c.h: CRC32C (Castagnoli), for finding bytes that changed.
 *
 * It detects accidents, not attacks: every change within 32 adjacent bits, every change of up to
 * three bits in a message of less than 256 MiB, and of all other changes all but one in 2^32. The
 * fastest variant that the CPU has is chosen at the first call; all variants give the same numbers.
 */
#ifndef BASE_NUMBER_CRC32C_H
#define BASE_NUMBER_CRC32C_H

#include <stdint.h>

/* The checksum of n more bytes; `crc` is that of the bytes before them, 0: there are none. [any] */
uint32_t crc32c(uint32_t crc, const void *bytes, uint64_t n);

#endif
