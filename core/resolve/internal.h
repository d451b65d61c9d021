/* resolve/internal.h: shared by the files of resolve/; private to this folder. */
#ifndef RESOLVE_INTERNAL_H
#define RESOLVE_INTERNAL_H

#include "base/err.h"
#include "resolve/resolve.h"

#include <string.h>

/* A spec while it is filled in. */
typedef struct resolve_state {
    config *cfg;
    spec *spec;
    resolve_meeting meeting;
    bool checked; /* the mesh axis that is being resolved has checksums */
} resolve_state;

/* The next name of a list with commas, without spaces; NULL at its end. */
static inline char *resolve_next_word(char **rest)
{
    char *word = strsep(rest, ",");
    if (!word)
        return NULL;
    word += strspn(word, " \t");
    word[strcspn(word, " \t")] = 0;
    return word;
}

/* --- sinks.c --- */
weft_status resolve_sinks(resolve_state *r); /* the plugins of log.sinks */

/* --- find.c --- */
/* What names `c`; NULL: nothing does by name. */
const resolve_selector *resolve_selector_of(const host_component *c);
/* The section of the INI with the keys of `c`: each sink has one of its own. */
const char *resolve_section_of(resolve_state *r, const host_component *c);

/* Find the component `name` of the kind that `key` names, check its table, and add its options. */
weft_status resolve_find(resolve_state *r, const char *key, const char *name,
                         const host_component **out);
/* ... for the job, which uses it: `name` NULL is the text of `key`. A failure says where that is.
 */
weft_status resolve_take(resolve_state *r, const char *key, const char *name,
                         const host_component **out);

/* --- plugins.c --- */
weft_status resolve_device(resolve_state *r);
weft_status resolve_use(resolve_state *r);        /* the plugins of run.use */
weft_status resolve_check_keys(resolve_state *r); /* the config against all keys */

/* --- groups.c: parameter groups, [optim.NAME] --- */
weft_status resolve_groups(resolve_state *r);       /* their keys, after the rule is known */
weft_status resolve_group_values(resolve_state *r); /* after the check of all keys */

/* --- effects.c --- */
/* The value of a key of [comm.AXIS], "" where [comm]'s holds. */
const char *resolve_own_value(const config *c, const spec *s, uint32_t a, const char *what);

/* --- data.c --- */
weft_status resolve_data(resolve_state *r); /* the source and the tokenizer, which are not opened */
weft_status resolve_tokenizer(resolve_state *r); /* the tokenizer alone */

/* --- model.c --- */

/* Open the model family, ask it about itself, and take the fields and the rows of the data, which
 * is NULL where there is none. */
weft_status resolve_model(resolve_state *r, const weft_data_info *data);

/* --- sections.c: keys of [comm], [comm.AXIS] and [comm.TRANSPORT] --- */
extern const char *const resolve_ifaces[]; /* of links, of libraries of collectives; NULL-ended */

/* Add all these sections and their keys. */
weft_status resolve_sections(resolve_state *r);
/* The keys of [comm.NAME] of a transport: the plugin's and those of the core; and their values. */
weft_status resolve_transport_keys(resolve_state *r, const host_component *c);
const weft_conf *resolve_transport_conf(resolve_state *r, const host_component *c);
/* The value of `what` ("plugin") for mesh axis `a`, and the key that sets it. */
const char *resolve_setting(const resolve_state *r, uint32_t a, const char *what, char key[128]);

/* --- transport.c --- */
/* Choose the transport of every mesh axis with more than one rank. [collective] */
weft_status resolve_transports(resolve_state *r);
weft_status resolve_axis_transport(resolve_state *r, uint32_t a); /* even if it has one rank */

/* --- component.c: components that plugins open --- */

/* Let plugins of the job open other components: "weft.host.component/1". Lives as long as the
 * spec. */
void resolve_serve_components(resolve_state *r);

/* Ask an open link for its features with these options (weft/link.h), and note them in the host's
 * copy of its table. */
weft_status resolve_link_features(const host_component *c, const weft_conf *conf);

/* --- candidate.c: probes --- */

/* A transport candidate. It is staged when some rank's transport cannot access device memory, such
 * as a network card that cannot register a GPU's memory: then data goes through host memory. */
typedef struct resolve_candidate {
    const host_component *c;
    bool staged;
} resolve_candidate;

/* Probes the transport that the job names for ranks along mesh axis `a` that share a machine, or
 * that do not. *score is 0 if this rank's probe fails; the error record has the reason, WEFT_ABSENT
 * if this machine lacks something. Adds to comm_choice what is staged. [collective] */
weft_status resolve_named(resolve_state *r, uint32_t a, const host_component *c, bool same_machine,
                          int32_t *score, resolve_candidate *out);

/* The candidate with the best score of all installed transports; a transport's score is the lowest
 * of all ranks. Adds to comm_choice the choice, and to comm_why the reason for rejecting each other
 * one. `links`: no libraries of collectives. [collective] */
weft_status resolve_best(resolve_state *r, uint32_t a, bool same_machine, bool links,
                         resolve_candidate *out);

/* --- kernel_set.c --- */
/* Agree on the set of kernels that all ranks compute with: spec.kernel_set. [collective] */
weft_status resolve_kernel_set(resolve_state *r);

/* --- peer_access.c --- */
/* Finds the mesh axes along which devices import each other's memory: spec.peer_imported.
 * [collective] */
weft_status resolve_peer_access(resolve_state *r);

#endif
