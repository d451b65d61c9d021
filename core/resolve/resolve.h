/* resolve/resolve.h: resolves a config to a spec.
 *
 * Resolving finds and opens the plugins that the job names, checks all keys, sizes the mesh, probes
 * transports and exchanges the results with the other ranks. It has two halves, because the keys of
 * plugins must be known before values are read:
 *
 *   resolve_plugins()  finds plugins from their constant data and checks the config
 *   resolve_spec()     opens them and fills in the rest
 *
 * resolve_links() replaces both where only transports are measured. Free the spec with
 * resolve_free(), also after a failure. */
#ifndef RESOLVE_RESOLVE_H
#define RESOLVE_RESOLVE_H

#include "config/config.h"
#include "job/host_map.h"
#include "resolve/spec.h"

/* What ranks exchange before planning. Borrowed. */
typedef struct resolve_meeting {
    const job_hosts *hosts;  /* NULL: all ranks are on one machine */
    job *job;                /* NULL: no communication with other ranks */
    const job_identity *who; /* this rank; NULL: its device is unknown */
    bool plan_only;          /* planning only: transports that are absent here are accepted */
} resolve_meeting;

/* Find the plugins that the job names (strategies, model family, data, device, update rule,
 * placement, transports), add their keys, and check the whole config. Opens no module. `out` is
 * initialised. [setup] */
weft_status resolve_plugins(config *cfg, host *h, spec *out);

/* After resolve_plugins(): open the modules and fill in the rest. `data` says what the job's data
 * has; NULL: the job is planned without data, and the inputs that its model declares are accepted.
 * `want` is SPEC_TRAIN or SPEC_FORWARD. `meeting` NULL: one machine, no other ranks; with a job
 * every rank has to call this. [setup] [collective] */
weft_status resolve_spec(config *cfg, uint32_t ranks, const weft_data_info *data,
                         const resolve_meeting *meeting, int want, spec *s);

/* After resolve_plugins(): refuse a key of the command line that changes nothing in this job, with
 * the reason; and a learning rate that would rise after its peak. [setup] */
weft_status resolve_check_effects(const config *cfg, const spec *s);
weft_status resolve_check_rates(const config *cfg);

/* Is the key for what ranks do together? Then a job of one does not read it. [any] */
bool resolve_joins_ranks(const config_line *line);

/* Refuse a typed line that changes nothing, for the reason `why`. [setup] */
weft_status resolve_refuse_line(const config *cfg, const config_line *line, const char *why);

/* The same of the job's file, in lines of the log: at level info for keys of plugins that the job
 * does not use, which may stay, and where the command line has the key that makes it so, else
 * warnings; and a warning if the learning rate never reaches its
 * peak. Nothing of one job of several (config_share_command_line). [setup] */
void resolve_warn_effects(const config *cfg, const spec *s);

/* After resolve_plugins() or resolve_links(): a warning for each word of an earlier version in the
 * job. [setup] */
void resolve_warn_former(const config *cfg);

/* After resolve_spec(): keys of transports that carry no mesh axis of a job of several ranks. Typed
 * ones are refused where all transports are named; else, and if `tell`, a line of the log: a
 * warning, or at level info for those in the file of a job that trains. Typed keys of strategies
 * whose axes have one coordinate are warned of. [setup] */
weft_status resolve_check_layout_keys(const config *cfg, const spec *s, bool tell);

/* After planning a job of several ranks in which train.bucket_mb cuts no sum of gradients: refuse
 * the key if it is typed, a warning if it is not or if a strategy could split the batch, which a
 * script may do in one layout and not in the next. [setup] */
weft_status resolve_check_buckets(const config *cfg, bool splits_batch, bool tell);

/* The key of a job file that sizes a mesh axis. Its texts are those of the axis. [any] */
weft_option resolve_axis_option(const weft_mesh_axis *axis);

/* A key that names plugins of an interface, and what a plugin of it is called. The table ends with
 * an `iface` of NULL. */
typedef struct resolve_selector {
    const char *iface, *kind, *noun, *key;
    uint32_t effect; /* of the keys of the plugin (config/differ.h) */
    size_t flags;    /* where its table has `flags`, which are 0; 0: nowhere */
} resolve_selector;
extern const resolve_selector resolve_selectors[];

/* What other values of a plugin's keys change (config/differ.h); whether it has a key. [any] */
uint32_t resolve_effect(const host_component *c);
bool resolve_has_option(const host_component *c, const char *key);

/* After resolve_plugins(): can the job not be planned without data, because its model takes a size
 * from it? [setup] */
bool resolve_needs_data(config *cfg, spec *s);

/* After resolve_plugins(): open the module of the source of samples, or of the tokenizer, and set
 * its options in the spec. [setup] */
weft_status resolve_open_source(config *cfg, spec *s);
weft_status resolve_open_tokenizer(config *cfg, spec *s);

/* Find only the tokenizer, to turn text into ids without a job, and check the keys. Instead of
 * resolve_plugins(). [setup] */
weft_status resolve_text(config *cfg, host *h, spec *out);

/* Put the line of the key that the error record names before the record, where it is one of `c` in
 * `section`: "data.train". False: it names none of them. [setup] */
bool resolve_add_place(const config *cfg, const host_component *c, const char *section);

/* Resolve only the transports, to measure them without a model: one mesh axis of all `ranks` over
 * comm.plugin. Instead of the two above. [setup] [collective] */
weft_status resolve_links(config *cfg, host *h, uint32_t ranks, const resolve_meeting *meeting,
                          spec *out);

/* Choose the transport of one mesh axis even if it has one rank. [setup] [collective] */
weft_status resolve_axis(config *cfg, const resolve_meeting *meeting, spec *s, uint32_t axis);

/* Load the file of a transport and probe it, in the child process of host_try_others(). [setup] */
void resolve_try_transport(config *cfg, host *h, uint32_t ranks, const char *path);

/* The product of the sizes of the mesh axes, `auto` counting as 1; after resolve_plugins(). */
uint32_t resolve_sizes(const config *cfg, const spec *s);

void resolve_free(spec *s);

#endif
