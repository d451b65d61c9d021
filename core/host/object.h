/* host/object.h: one plugin file and its components; private to this folder. */
#ifndef HOST_OBJECT_H
#define HOST_OBJECT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "host/host.h"

/* --- interfaces.c: the known interfaces --- */

typedef struct host_slot {
    const char *name; /* NULL ends the list */
    uint32_t offset;
    uint64_t caps; /* 0: always mandatory; else if the table's caps have one of these bits */
} host_slot;

typedef struct host_interface {
    const char *id;   /* "weft.link/1" */
    const char *kind; /* NULL: any folder */
    uint32_t size;    /* of the table, in this program */
    uint32_t least;   /* ... in ABI 0.9: what every plugin's table has */
    uint32_t caps;    /* offset of its 64-bit caps; 0: it has none */
    const host_slot *slots;
} host_interface;

const host_interface *host_interface_find(const char *id);        /* NULL: not known */
const host_interface *host_interface_other_major(const char *id); /* "weft.link/1" for /2 */
bool host_interface_well_formed(const char *id);                  /* "name/N", nothing after */

/* --- objects --- */

typedef struct host_object host_object;

typedef struct host_adopted { /* a component and its object */
    host_component shown;     /* first: host_open() casts between the two */
    host_object *from;
} host_adopted;

struct host_object {
    host *owner;
    const char *path, *kind; /* real path; its folder */
    dev_t dev;
    ino_t ino;
    const char *refusal; /* why it cannot be used, or NULL */
    weft_status status;  /* the status of `why` */
    const weft_manifest *manifest;
    host_adopted *components;
    uint32_t n;
    weft_host table; /* the table that its module calls */
    bool opened, opening;
    bool warned; /* what it hides */
    void *module;
    atomic_llong blocks;   /* allocated by alloc() and not freed */
    _Atomic uint64_t held; /* their bytes */
    atomic_int refused;    /* alloc() has said that they are too many */
};

typedef struct host_served {
    const char *id;
    const void *table;
    host_make_table make; /* NULL: all plugins get `table` */
    void *ctx;
} host_served;

typedef VEC(const char *) host_object_files;

struct host {
    pool pool;
    bool watched;   /* host_watch_begin() was called for it */
    bool quiet;     /* about places that are not there */
    bool try_first; /* host_try_first() */
    VEC(const char *) places;
    bool has_own; /* the last place is the program's own */
    VEC(host_object *) objects;
    VEC(host_served) served;
    VEC(host_object *) opened; /* in that order */
    VEC(host_object *) used;   /* by the job: used.c */
    host_object *ops;          /* that of host_use_ops(); NULL: not yet */
};

/* host.c: the kinds of plugins, which are the names of their folders; NULL-ended. */
extern const char *const host_kinds[];

/* object.c: the object at `path`, loaded and checked at most once under all its names. An object
 * that cannot be used fails with the same record every time. */
weft_status host_object_load(host *h, const char *kind, const char *path, host_object **out);

/* The object at `path`, which is not looked at again; NULL: none is loaded from there. */
host_object *host_object_known(const host *h, const char *path);

/* The component `name` with one of the interfaces, which are NULL-ended and tried in order; NULL:
 * the object has none that can be used. */
const host_component *host_object_find(const host_object *o, const char *name,
                                       const char *const *ifaces);

/* object.c: from now on no host of this process loads the file; and why not, NULL: nobody has
 * refused it. Refuse only while the process has no other threads. */
void host_object_refuse(dev_t dev, ino_t ino, const char *why);
const char *host_object_refused(dev_t dev, ino_t ino);

#define TRY_SECONDS 10 /* for listing */

/* try.c: load these files in child processes, and refuse those that do not survive it; each has
 * `seconds` at most, and run.call_deadline; 0: only that. */
void host_try_files(host *h, const char *kind, const host_object_files *files, double seconds);

/* try.c: host_try_others() of these files. */
bool host_try_each(const host_object_files *files, host_try_work *work, const void *ctx, bool tell);

/* try.c: what host_try_first() asks for, for a file that is not loaded yet. */
void host_try_before(host *h, const char *kind, const char *path);

/* adopt.c: the growth rule (weft/base.h), for a struct with its struct_size at `at` bytes: at least
 * `least` bytes, and zeros behind the `known` ones. `owner` and `what` are for messages. */
weft_status host_check_size(const char *owner, const char *what, const void *table, size_t at,
                            size_t least, size_t known);

/* The host's own copy of a struct that begins with its size, `size` bytes at `own`: its struct_size
 * is the part of the plugin's own that this program knows; host_adopt(): it reads as one of this
 * program's size. */
weft_status host_adopt_sized(const char *owner, const char *what, const void *from, size_t least,
                             void *own, size_t size);
weft_status host_adopt(const char *owner, const char *what, const void *from, size_t least,
                       void *own, uint32_t size);

/* formats.c: check the tables of names of a model family, and replace them by the host's own. */
struct weft_model_table;
weft_status host_adopt_formats(host_object *o, const weft_component *c, struct weft_model_table *t);

/* manifest.c: check the manifest and adopt its components. */
weft_status host_validate_manifest(host_object *o, const weft_manifest *m);

/* file_check.c: a checked file, and the descriptors that it was checked by. */
typedef struct host_trusted {
    char real[PATH_MAX]; /* its path without links; "": the file does not exist */
    int folder, file;    /* O_PATH of the folder; the file, open for reading; -1: not open */
    struct stat st;      /* of the file */
} host_trusted;

/* Whether the file may be loaded: owner, permissions, and those of its folder and of the folders on
 * the way. Call host_file_check_close() after a failure as well. */
weft_status host_file_check_open(const char *path, host_trusted *t);
void host_file_check_close(host_trusted *t);

/* Whether it is a complete shared object for this machine. */
weft_status host_file_check_elf(const host_trusted *t);

/* serve.c */
void host_object_close(host_object *o);

#endif
