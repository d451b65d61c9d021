/* resolve/transport.h: which transport carries which mesh axis. */
#ifndef RESOLVE_TRANSPORT_H
#define RESOLVE_TRANSPORT_H

#include "resolve/spec.h"

/* Make the sections [comm.AXIS] and [comm.PLUGIN] known, with their keys. */
weft_status transport_add_sections(spec *s);

/* [comm.NAME] has the plugin's keys and those of the core. */
weft_status transport_add_keys(spec *s, const component *c);
const weft_conf *transport_conf(spec *s, const component *c); /* what stands there */

/* Settle the transport of every mesh axis with more than one rank, or two of them: one inside
 * machines. A named one that cannot be used is an error; `auto` takes the best score among those
 * whose probe says yes on every rank. */
weft_status transport_choose(spec *s);
weft_status transport_choose_axis(spec *s, uint32_t a); /* even if it has one rank */

/* --- homes.c --- */

/* Find the mesh axes along which devices map each other's arenas: s->attached. [collective] */
weft_status homes_find(spec *s);

/* --- carrier.c --- */

/* A transport, and whether everything has to go through host memory for it since, on some rank, it
 * cannot reach what it reaches elsewhere: a card that cannot register a GPU's memory. */
typedef struct carrier {
    const component *c;
    bool staged;
} carrier;

/* Can the transport that the user named carry ranks along mesh axis `a` that share a machine, or do
 * not? *score is 0 where it cannot, as seen from this rank; then the record says why, and with
 * WEFT_ABSENT that it is this machine which lacks something. Adds to s->comm_choice what goes
 * through host memory. [collective] */
weft_status carrier_named(spec *s, uint32_t a, const component *c, bool same_machine,
                          int32_t *score, carrier *out);

/* The best of all that are installed, as all ranks see it; adds to s->comm_choice what it is, and
 * why each one that cannot carry mesh axis `a` was passed over. `links`: no libraries with
 * collectives of their own. [collective] */
weft_status carrier_best(spec *s, uint32_t a, bool same_machine, bool links, carrier *out);

#endif
