/* comm/fd_passing.h: descriptors from process to process of one machine. */
#ifndef COMM_FD_PASSING_H
#define COMM_FD_PASSING_H

#include <weft/base.h>

/* Where a rank takes descriptors, and what proves that it was told so; zeroes: nowhere. */
typedef struct pass_address {
    char name[16];
    uint64_t secret[2];
} pass_address;

typedef struct pass_box {
    int fd;
    pass_address at;
} pass_box;

weft_status pass_open(pass_box *out); /* closed by pass_close(), also when it fails [setup] */
void pass_close(pass_box *b);

/* Give `fd`, which stays the caller's, as rank `me`. WEFT_BUSY: once more a little later. [setup]
 */
weft_status pass_give(const pass_box *b, uint32_t me, const pass_address *to, int fd);

/* A descriptor that a process of this user gave who was told the secret; the caller's to close.
 * WEFT_BUSY: there is none now, or 64 datagrams of strangers came first. [setup] */
weft_status pass_take(const pass_box *b, uint32_t *from, int *fd);

#endif
