/* tests/abi/bad.h: what bad.c and the tests that load it both know. */
#ifndef ABI_BAD_H
#define ABI_BAD_H

#include <weft/plugin.h>

/* The module of bad.c: what its open() was given. */
typedef struct bad_module {
    const weft_host *host;
    const void *tls; /* host->iface("weft.host.tls/1") */
    void *block;     /* host->alloc(100, 4096)         */
} bad_module;

#endif
