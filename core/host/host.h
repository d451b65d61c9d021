/* host/host.h: finds, checks and serves plugins.
 *
 * A plugin is searched as KIND/NAME.so in `[run] plugins`, WEFT_PLUGIN_PATH and the program's own
 * ../lib/weft, in that order; then as a component NAME of any object in a KIND folder, then in the
 * folders of the other kinds. The manifest is checked before any code of the plugin runs; a named
 * plugin that cannot be used is an error with the reason. Objects are never unloaded.
 *
 * A file is checked and loaded through descriptors, from the root to itself, so that renaming a
 * folder cannot substitute an unchecked file. Every folder on the way, also on that of a link, must
 * belong to root or the user and be closed to group and others, or have the sticky bit; one above
 * the file's own two may be open to the user's private group. Folders above the running program are
 * exempt, except the file's own two: who can rename them can replace the program. Only the owner
 * may change a link: it must be root or the user. */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <limits.h>
#include <stdbool.h>
#include <weft/plugin.h>

typedef struct host host; /* opaque */

/* A component that passed the checks. `table` is the host's own zero-padded copy. */
typedef struct host_component {
    const char *kind;  /* one of host_kinds: "device", "comm", "model" */
    const char *iface; /* "weft.link/1" */
    const char *name, *help, *path;
    const weft_option *const *options; /* never NULL; may be empty */
    const void *table;
    const weft_manifest *manifest;
    const weft_component *own;   /* the host's copy, with these options and this table */
    const weft_conf *no_options; /* of ops and kernels, which have no section in the INI */
    void *module;                /* after host_open(); NULL before */
} host_component;

/* `dirs` is the user's "DIR:DIR" or NULL. [setup] */
weft_status host_create(const char *dirs, host **out);
void host_destroy(host *h); /* closes every open module; NULL is allowed */

/* Load and check the component `name` of `kind`. `ifaces` is a NULL-ended list of acceptable
 * interfaces, best first. A failure names the places searched and the nearest known name. */
weft_status host_find(host *h, const char *kind, const char *name, const char *const *ifaces,
                      const host_component **out);

/* Open the module of a component, once per job. The table passed to the plugin has log, memory,
 * failures, and the interfaces given to host_serve(). */
weft_status host_open(host *h, const host_component *c);

/* Let weft_host.iface(id) answer `table`. Before host_open(). */
void host_serve(host *h, const char *id, const void *table);

/* The same with a table for each plugin: `make` gets `ctx` and the plugin's id at every call of
 * iface(), from any thread. */
typedef const void *(*host_make_table)(void *ctx, const char *plugin);
void host_serve_each(host *h, const char *id, host_make_table make, void *ctx);

/* Load every file of every place in a child process first: a file whose code crashes, exits or does
 * not return is refused from then on, with the reason, and never loaded by this process. Without
 * it, such a file ends the process with a message that names it. For commands that only list. Call
 * it while the process has one thread. [setup] */
void host_try_all(host *h);

/* Every component of the kind (NULL: of all) in every place searched, sorted by kind and name;
 * objects that cannot be used come with iface NULL and the reason in `help`. Loads their files. */
void host_list(host *h, const char *kind, const host_component ***out, uint32_t *n);

/* The number of the place, in the order of the search, that the file `path` of a component lies in;
 * *own: it is the program's. A file in none of them is behind all. [any] */
uint32_t host_place_of(const host *h, const char *path, bool *own);

/* Whether the path of a plugin is a line of text: a control character in it is refused, since paths
 * are printed. WEFT_USAGE, with the path as it may be printed. [any] */
weft_status host_check_path(const char *path);

/* The same as host_try_all() for one file. */
void host_try_file(host *h, const char *path);

/* From now on try each file outside the program's own folder in this way before it is loaded, while
 * the process has no thread but the caller's and the watchdog's: _exit() in a constructor would end
 * a process without a word. For programs that load what a job names. [setup] */
void host_try_first(host *h);

/* Do `work` with each file of the kind in `dirs` ("DIR:DIR" or NULL) and WEFT_PLUGIN_PATH, but in
 * the program's own folder, in a child process a file, whose output goes nowhere. A file whose code
 * ends that process, or does not return within 30 seconds, is refused from then on by every host of
 * this process, with the reason, and `tell` warns of it. False: nothing was done, since this
 * process has threads that might hold a lock. [setup] */
typedef void host_try_work(const void *ctx, const char *path);
bool host_try_others(const char *dirs, const char *kind, host_try_work *work, const void *ctx,
                     bool tell);

/* Load and check the file `path`, whatever its name and folder: its components, in the order of the
 * manifest. The array lives as long as the host. Those of interfaces that the host does not know
 * have a NULL table. [setup] */
weft_status host_load_file(host *h, const char *path, const host_component *const **out,
                           uint32_t *n);

/* The job uses `c`: the ops and kernels of its whole object are the job's. Objects that were loaded
 * only to look into them, as the probes of `auto` do, are not used. Fails if another object in use
 * has an op of the same name. */
weft_status host_use(host *h, const host_component *c);

/* The same for a name in run.use: a file NAME.so in the folder of any kind, else an op or a kernel
 * of that name in any file. *path, unless `path` is NULL: that file, of the host. A failure names
 * the nearest known name. */
weft_status host_use_named(host *h, const char *name, const char **path);

/* The ops that come with weft, which every job uses: the plugin that config_ops() names. Call it
 * before other objects are used. A failure says where the file was looked for. */
weft_status host_use_ops(host *h);

/* Those ops by number, in the order of their manifest; NULL behind the last. [any] */
const host_component *host_own_op(const host *h, uint32_t i);

/* Every component of an interface ("weft.op/1", "weft.kernel/1") in the objects in use, in the
 * order of use: returns their number; writes at most `cap` of them. */
uint32_t host_used(const host *h, const char *iface, const host_component **out, uint32_t cap);

/* The component of that interface and name in the objects in use; NULL: none. [any] */
const host_component *host_used_find(const host *h, const char *iface, const char *name);

/* A file in use, and the SHA-256 of its bytes in hexadecimal. */
typedef struct host_file {
    const char *id, *path; /* of its manifest; without links */
    char digest[65];
} host_file;

/* The files in use, in the order of use; *out is the host's. `digests`: reads each, and fails if a
 * file is no longer the one that was loaded; else the digests are empty. [setup] */
weft_status host_used_files(host *h, bool digests, const host_file **out, uint32_t *n);

/* Is it a name that a component or plugin may have: "tcp", "acme.ring"? [any] */
bool host_plugin_name_well_formed(const char *name);

/* The folder above the `bin` that this program was started from; false: it is not known. [any] */
bool host_program_prefix(char out[PATH_MAX]);

/* The path of the program `name` in the folder of this one. [setup] */
weft_status host_program_beside(const char *name, char out[PATH_MAX]);

#endif
