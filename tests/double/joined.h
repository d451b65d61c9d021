/* joined.h: chains that the double of a device joins, each as its members over the operands of the
 * one op: so that whatever the core joins is computed as if it had not. */
#ifndef DOUBLE_JOINED_H
#define DOUBLE_JOINED_H

#include <weft/device.h>

#define JOINED_MAX 3u

/* Operands of a member by letter: a digit is an input of the joined op, a letter from a on one of
 * its outputs. */
typedef struct joined_member {
    const char *id, *in, *out;
} joined_member;

typedef struct joined_op {
    const char *name;
    uint32_t nin, nout, n;
    const char *like; /* for each output what it has the shape of when it is absent; '-': nobody
                         knows, and there is no kernel then */
    joined_member member[JOINED_MAX];
    uint32_t joins; /* of the members behind the first: how the second joins, the third; two bits */
} joined_op;

const char *joined_name(const char *const *ids, const uint32_t *joins, uint32_t n);

/* An op made ready, joined or not. */
typedef struct joined_ready {
    const joined_op *joined; /* NULL: the one op is inner[0] */
    weft_prepared *inner[JOINED_MAX];
    char *absent; /* where an output goes that nobody reads */
    uint32_t nin, nout;
} joined_ready;

/* WEFT_ABSENT: a chain that `wish` (none, short, long) has not, or whose shapes nobody knows. */
weft_status joined_need(const weft_device_table *cpu, void *module, const weft_conf *conf,
                        const weft_opspec *spec, const char *wish, weft_requirements *out);
weft_status joined_prepare(const weft_device_table *cpu, weft_device *d, const weft_opspec *spec,
                           joined_ready *out);
weft_status joined_run(const weft_device_table *cpu, weft_stream *s, const joined_ready *r,
                       const void *const *in, void *const *out, void *workspace);
void joined_release(const weft_device_table *cpu, joined_ready *r);

#endif
