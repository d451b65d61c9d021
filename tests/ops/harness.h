/* harness.h: a device as a test sees it: loaded by its path, with a host of the checker's
 * (sdk/check/harness). It is the cpu device, or the one whose file the environment variable
 * WEFT_OPS_DEVICE names; WEFT_OPS_CONF gives keys of it other values than their defaults:
 * "KEY=VALUE,KEY=VALUE". */
#ifndef OPS_HARNESS_H
#define OPS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check/harness/harness.h"
#include "check/reference/reference.h"

/* A device opened with these options. */
struct bench {
    const weft_device_table *t;
    check_host host; /* its `why` is what the device has said first */
    const weft_conf *conf;
    void *module;
    void (*close)(void *module);
    weft_device *d;
    weft_stream *s;
    weft_event *e;
    char threads[16], isa[8];
    char *arena;              /* where operands lie, of a device whose memory is not the host's */
    const check_call *beside; /* made ready behind each call that is run; NULL: none */
};

/* WEFT_OK, or what open() said. */
weft_status bench_open(struct bench *b, const char *isa, int threads);
void bench_close(struct bench *b);

/* Wait for what is enqueued. */
void bench_finish(struct bench *b);

/* Is it the cpu device that is tested? */
int bench_is_cpu(void);

/* The sets of kernels that the device has for this CPU, narrowest first; NULL ends the list. Of
 * another device: one name that means nothing. */
const char *const *bench_isas(void);

/* Put into c->y what the op gives for c->x: check_reference(), which has to know it. */
void reference(const check_call *c);

/* Values to and from memory of an element type. */
void encode(void *to, uint32_t dtype, const double *from, int64_t n);
void decode(double *to, uint32_t dtype, const void *from, int64_t n);

/* Uniform in [lo, hi), the same sequence in each run of a test. */
double uniform(double lo, double hi);

/* Run the call on a device: outputs poisoned, or holding y where it accumulates; bytes around each
 * buffer checked. got[k]: the outputs' bytes, to be freed. */
void device_run(struct bench *b, const check_call *c, void **got);

/* Fail unless |got - want| <= tol (|want| + rms(want)) for each element. The error of
 * small elements beside large ones is not measured: ew_test.c does that. */
void expect_close(const char *what, const double *got, const double *want, int64_t n, double tol);

#endif
