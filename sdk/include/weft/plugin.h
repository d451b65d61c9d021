/* weft/plugin.h: the manifest, components and options of a plugin, and the host calls it may use.
 *
 * A plugin is one shared object with one exported symbol, weft_plugin_entry(), which returns
 * constant data: the manifest. The host validates that data before it calls anything else of the
 * plugin. (Constructors of the object run even earlier, in dlopen(): they must do nothing that can
 * be observed.)
 *
 *   1. dlopen(path, RTLD_NOW | RTLD_LOCAL); the object must export weft_plugin_entry itself
 *   2. magic, ABI major and layout tag must match and the ABI minor be 9 or later, else loading
 *      fails and names the field; what differs between minors is settled by sizes (base.h, Growth)
 *   3. each component: an interface that the host knows, a table with its mandatory members
 *   4. the user's INI is checked against the component's options; defaults are filled in
 *   5. open() once a job, then the calls of the component's table, then close(). `weft plan` opens
 *      modules too, so open() touches no driver, device or network
 *
 * Objects are never unloaded. A plugin links no weft library; everything that it may call comes as
 * a table. Plugins do not see each other: a strategy names a collective, never a transport.
 *
 * One .so may carry several components, of several kinds. Interfaces are named by a string with
 * their major number: "weft.device/1" (device.h), "weft.link/1" (link.h), "weft.coll/1" (coll.h),
 * "weft.strategy/1" (strategy.h), "weft.rule/1" and "weft.placement/1" (optim.h), "weft.op/1" and
 * "weft.kernel/1" (op.h), "weft.model/1" (model.h), "weft.data/1" and "weft.tokenizer/1" (data.h),
 * "weft.sink/1" (sink.h). A third party's own names take a reverse domain: "org.acme.rail/1".
 */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include <weft/base.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_ABI_MAJOR 0u
#define WEFT_ABI_MINOR 10u
#define WEFT_ABI_LEAST_MINOR 9u /* the oldest that this version still loads */
#define WEFT_MAGIC 0x54464557u  /* "WEFT" */
#define WEFT_ABI_TAG                                                                               \
    ((uint64_t)sizeof(void *) | (uint64_t)sizeof(size_t) << 8 | (uint64_t)__BYTE_ORDER__ << 16 |   \
     (uint64_t)WEFT_MAX_AXES << 32)

/* --- Options: the INI keys of a component, as data ---
 *
 * The host parses, checks and documents them; the plugin reads validated values. Sections of the
 * keys: device, strategy, rule, placement, model, data and tokenizer components use the section of
 * their kind ([device], [parallel], [optim], [model], [data], [tokenizer]); a link or coll
 * component uses [comm.NAME], a sink [sink.NAME]. Ops and kernels have none. */
#define WEFT_OPT_BOOL 1u     /* on | off (also true/false, yes/no, 1/0) */
#define WEFT_OPT_INT 2u      /* whole number in [min, max] */
#define WEFT_OPT_REAL 3u     /* real number in [min, max] */
#define WEFT_OPT_STRING 4u   /* any text */
#define WEFT_OPT_CHOICE 5u   /* one of `choices`, separated by '|' */
#define WEFT_OPT_BYTES 6u    /* whole number with an optional K, M or G (powers of 1024) */
#define WEFT_OPT_SECONDS 7u  /* real number of seconds in [min, max] */
#define WEFT_OPT_REALS 8u    /* reals separated by commas, each in [min, max] */
#define WEFT_OPT_AUTO_INT 9u /* `auto`, read as 0, or a whole number in [min, max] */

typedef struct weft_option {
    uint32_t struct_size;
    uint32_t type;       /* WEFT_OPT_... */
    const char *key;     /* lower case, digits, '_' */
    const char *dflt;    /* must parse under its own type; NULL: the user has to give it */
    const char *help;    /* one line; printed by `weft plugins NAME` and the docs */
    const char *choices; /* WEFT_OPT_CHOICE: "a|b|c"; otherwise NULL */
    double min, max;     /* both 0: no bounds */
} weft_option;
WEFT_FREEZE(weft_option, max, 56);

struct weft_component;

/* The values of one component's options, checked and with defaults filled in, and the component
 * itself: a function that serves several components (a bridge to another language) finds its own
 * data in component->user. The table and its strings are the host's and live until close() returns.
 * A key that the component did not declare is a bug of the plugin: the getters then answer NULL or
 * 0 and log who asked. [any] */
typedef struct weft_conf {
    uint32_t struct_size, flags;
    void *ctx;
    const struct weft_component *component;
    const char *(*text)(void *ctx, const char *key); /* as written, trimmed */
    int64_t (*integer)(void *ctx, const char *key);  /* INT, BYTES, AUTO_INT; BOOL as 0 or 1 */
    double (*real)(void *ctx, const char *key);      /* REAL, SECONDS */

    /* REALS: how many the user gave, of which at most `room` are written to `out`. Compare it with
     * the number that you need: too many are the user's mistake as well. */
    uint32_t (*reals)(void *ctx, const char *key, double *out, uint32_t room);
} weft_conf;
WEFT_FREEZE(weft_conf, reals, 56);

/* --- Host table: lives until close() has returned. Lent: a later host's is longer --- */
#define WEFT_LOG_ERROR 0
#define WEFT_LOG_WARN 1
#define WEFT_LOG_INFO 2
#define WEFT_LOG_DEBUG 3

typedef struct weft_host {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    void *ctx; /* pass it back, never look inside */

    /* Zeroed memory, aligned to `align` (a power of two, 0 for 16). NULL when there is none. The
     * caller gives it back with free() of the same table; free(NULL) does nothing. From any thread,
     * but not from a call tagged [compute] or [progress]. [any] */
    void *(*alloc)(void *ctx, uint64_t bytes, uint64_t align);
    void (*free)(void *ctx, void *p);

    /* One finished line of text without a newline; the host adds time, rank and plugin. Ask
     * log_enabled() first where making the text costs something. [any] */
    int32_t (*log_enabled)(void *ctx, int32_t level);
    void (*log)(void *ctx, int32_t level, const char *text);

    /* Record why the call now running fails and return `code`. `text` is a sentence for a user:
     * what was asked, what is wrong, where, what to do. One that begins with a key of the plugin,
     * as "data.train: ...", gets the line of the INI put before it. The record belongs to the
     * calling thread; the first record of a failure is kept, later ones are added as context. [any]
     */
    weft_status (*fail)(void *ctx, weft_status code, const char *text);

    /* Another table of the host by id, or NULL where this host has none. [any] */
    const void *(*iface)(void *ctx, const char *id);
} weft_host;
WEFT_FREEZE(weft_host, iface, 64);

/* --- The manifest: constant data --- */
typedef struct weft_component {
    uint32_t struct_size, flags; /* flags: 0 */
    const char *iface;           /* "weft.link/1" */
    const char *name;            /* what the user writes: "tcp"; lower case, digits, '.', '_' */
    const char *help;            /* one line for `weft plugins` */
    const weft_option *const *options; /* NULL-ended array of pointers; NULL: none */
    const void *table;                 /* const, of the type that `iface` names, its size first */
    void *user;                        /* the plugin's own; weft_conf.component leads to it */
} weft_component;
WEFT_FREEZE(weft_component, user, 56);

typedef struct weft_manifest {
    uint32_t magic, struct_size;             /* WEFT_MAGIC, sizeof(weft_manifest) */
    uint16_t abi_major, abi_minor;           /* of the headers that the plugin was compiled with */
    uint32_t flags;                          /* 0 */
    uint64_t abi_tag;                        /* WEFT_ABI_TAG */
    const char *id;                          /* "weft.tcp", "org.acme.rail" */
    const char *version, *license;           /* for people; never compared */
    const char *build;                       /* compiler and commit if you like; shown in reports */
    const weft_component *const *components; /* NULL-ended */

    /* Begin a job: `*module` is handed to every call of the components' tables until close(). May
     * be called several times in a process, with different hosts; keep nothing global. [setup] */
    weft_status (*open)(const weft_host *host, void **module);

    /* End a job. On return no thread, callback, descriptor or memory of this module is left.
     * NULL is allowed. [setup] */
    void (*close)(void *module);
} weft_manifest;
WEFT_FREEZE(weft_manifest, close, 80);

/* The fields that every manifest fills in the same way, in order; continue with your id. */
#define WEFT_MANIFEST_HEAD                                                                         \
    WEFT_MAGIC, (uint32_t)sizeof(weft_manifest), WEFT_ABI_MAJOR, WEFT_ABI_MINOR, 0u, WEFT_ABI_TAG

typedef const weft_manifest *(*weft_plugin_entry_fn)(void);

/* The one exported symbol, for good: its name never carries a version. Two calls return the same
 * pointer; it runs in well under a millisecond and touches nothing. [any] */
__attribute__((visibility("default"))) const weft_manifest *weft_plugin_entry(void);

/* For `open`, where a plugin keeps nothing between calls: the module is the host's table. [setup]
 */
static inline weft_status weft_open_host(const weft_host *host, void **module)
{
    *module = (void *)(uintptr_t)host;
    return WEFT_OK;
}

/* Zeroed memory for an object, given back with host->free(). NULL when *st is a failure already,
 * and when there is none: *st is then WEFT_NO_MEMORY with a message. [setup] */
static inline void *weft_new(const weft_host *host, uint64_t bytes, weft_status *st)
{
    void *p = *st == WEFT_OK ? host->alloc(host->ctx, bytes, 0) : NULL;
    if (*st == WEFT_OK && !p)
        *st = (host->fail)(host->ctx, WEFT_NO_MEMORY, "no memory for an object of this plugin");
    return p;
}

/* The failure of a call that asks for a flag or field which the plugin does not know: the rule on
 * the unknown of base.h. [any] */
static inline weft_status weft_refuse_unknown(const weft_host *host)
{
    return (host->fail)(host->ctx, WEFT_UNSUPPORTED,
                        "the call asks for a flag or a field that this plugin does not know: the "
                        "program is newer than the plugin");
}

/* WEFT_OK when a flags word has no bit but those in `known`. [any] */
static inline weft_status weft_check_flags(const weft_host *host, uint64_t flags, uint64_t known)
{
    return flags & ~known ? weft_refuse_unknown(host) : WEFT_OK;
}

/* WEFT_OK when the plugin knows all that an argument struct asks for. The struct begins with
 * struct_size and flags; `size` is its sizeof in the plugin, `known` the flags that it knows. [any]
 */
static inline weft_status weft_check_args(const weft_host *host, const void *args, size_t size,
                                          uint32_t known)
{
    return !weft_tail_is_zero(args, size) || (((const uint32_t *)args)[1] & ~known)
               ? weft_refuse_unknown(host)
               : WEFT_OK;
}

/* The entry symbol and the manifest, once in a plugin, at file scope:
 *
 *   WEFT_PLUGIN("org.acme.lion", "1.0", "MIT", components, weft_open_host, NULL);
 *
 * The arguments are members of weft_manifest, in their order; `build` names the compiler. */
#define WEFT_PLUGIN(id, version, license, components, open, close)                                 \
    const weft_manifest *weft_plugin_entry(void)                                                   \
    {                                                                                              \
        static const weft_manifest manifest = {WEFT_MANIFEST_HEAD, id,         version, license,   \
                                               __VERSION__,        components, open,    close};    \
        return &manifest;                                                                          \
    }                                                                                              \
    const weft_manifest *weft_plugin_entry(void)

WEFT_EXTERN_C_END

#endif
