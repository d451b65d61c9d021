/* host/host.h: finds plugins, judges them, and serves them.
 *
 * A plugin is looked for as KIND/NAME.so in `[run] plugins`, WEFT_PLUGIN_PATH and the program's own
 * ../lib/weft, in that order; failing that, as a component NAME of any object in a KIND folder,
 * then in the folders of the other kinds. The manifest is judged before any code of the plugin
 * runs; a plugin that was named and cannot be used is an error that says why. Objects are never
 * unloaded.
 *
 * A file is judged and loaded through descriptors of its folder and itself, so that nobody who may
 * rename folders above can slip in another. Its folder and the one above it must belong to root or
 * the user and be closed to group and others, or have the sticky bit; so must the folders that a
 * link to it lies in. Who may change a link is its owner: root or the user. */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <weft/plugin.h>

typedef struct host host; /* opaque */

/* A component that passed the judgement. `table` is the host's own zero-padded copy. */
typedef struct component {
    const char *kind;  /* "device", "comm", "parallel", "optim"                                   */
    const char *iface; /* "weft.link/1"                                                           */
    const char *name, *help, *path;
    const weft_option *const *options; /* never NULL; may be empty                                */
    const void *table;
    const weft_manifest *manifest;
    void *module; /* after host_open(); NULL before                          */
} component;

/* `dirs` is the user's "DIR:DIR" or NULL. [setup] */
weft_status host_create(const char *dirs, host **out);
void host_destroy(host *h); /* closes every open module; NULL allowed */

/* Load and judge the component `name` of `kind`. `ifaces` is a NULL-ended list of acceptable
 * interfaces, best first. A failure names the places searched and the nearest known name. */
weft_status host_find(host *h, const char *kind, const char *name, const char *const *ifaces,
                      const component **out);

/* Open the module of a component, once a job. The table handed to the plugin serves log, memory,
 * failures, and the interfaces given to host_serve(). */
weft_status host_open(host *h, const component *c);

/* Let weft_host.iface(id) answer `table`. Before host_open(). */
void host_serve(host *h, const char *id, const void *table);

/* Every component installed in every place searched, sorted by kind and name; objects that cannot
 * be used come with iface NULL and the reason in `help`. For `weft plugins`. */
weft_status host_list(host *h, const component ***out, uint32_t *n);

/* Every component of an interface ("weft.op/1", "weft.kernel/1") in the objects loaded so far: how
 * many there are; at most `cap` of them are written. */
uint32_t host_loaded(host *h, const char *iface, const component **out, uint32_t cap);

#endif
