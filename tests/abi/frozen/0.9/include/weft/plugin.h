#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H
#include <weft/base.h>
WEFT_EXTERN_C_BEGIN
#define WEFT_ABI_MAJOR 0u
#define WEFT_ABI_MINOR 9u
#define WEFT_ABI_LEAST_MINOR 9u
#define WEFT_MAGIC 0x54464557u
#define WEFT_ABI_TAG                                                                               \
    ((uint64_t)sizeof(void *) | (uint64_t)sizeof(size_t) << 8 | (uint64_t)__BYTE_ORDER__ << 16 |   \
     (uint64_t)WEFT_MAX_AXES << 32)
#define WEFT_OPT_BOOL 1u
#define WEFT_OPT_INT 2u
#define WEFT_OPT_REAL 3u
#define WEFT_OPT_STRING 4u
#define WEFT_OPT_CHOICE 5u
#define WEFT_OPT_BYTES 6u
#define WEFT_OPT_SECONDS 7u
#define WEFT_OPT_REALS 8u
#define WEFT_OPT_AUTO_INT 9u
typedef struct weft_option {
    uint32_t struct_size;
    uint32_t type;
    const char *key;
    const char *dflt;
    const char *help;
    const char *choices;
    double min, max;
} weft_option;
WEFT_FREEZE(weft_option, max, 56);
struct weft_component;
typedef struct weft_conf {
    uint32_t struct_size, flags;
    void *ctx;
    const struct weft_component *component;
    const char *(*text)(void *ctx, const char *key);
    int64_t (*integer)(void *ctx, const char *key);
    double (*real)(void *ctx, const char *key);
    uint32_t (*reals)(void *ctx, const char *key, double *out, uint32_t room);
} weft_conf;
WEFT_FREEZE(weft_conf, reals, 56);
#define WEFT_LOG_ERROR 0
#define WEFT_LOG_WARN 1
#define WEFT_LOG_INFO 2
#define WEFT_LOG_DEBUG 3
typedef struct weft_host {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    void *ctx;
    void *(*alloc)(void *ctx, uint64_t bytes, uint64_t align);
    void (*free)(void *ctx, void *p);
    int32_t (*log_enabled)(void *ctx, int32_t level);
    void (*log)(void *ctx, int32_t level, const char *text);
    weft_status (*fail)(void *ctx, weft_status code, const char *text);
    const void *(*iface)(void *ctx, const char *id);
} weft_host;
WEFT_FREEZE(weft_host, iface, 64);
typedef struct weft_component {
    uint32_t struct_size, flags;
    const char *iface;
    const char *name;
    const char *help;
    const weft_option *const *options;
    const void *table;
    void *user;
} weft_component;
WEFT_FREEZE(weft_component, user, 56);
typedef struct weft_manifest {
    uint32_t magic, struct_size;
    uint16_t abi_major, abi_minor;
    uint32_t flags;
    uint64_t abi_tag;
    const char *id;
    const char *version, *license;
    const char *build;
    const weft_component *const *components;
    weft_status (*open)(const weft_host *host, void **module);
    void (*close)(void *module);
} weft_manifest;
WEFT_FREEZE(weft_manifest, close, 80);
#define WEFT_MANIFEST_HEAD                                                                         \
    WEFT_MAGIC, (uint32_t)sizeof(weft_manifest), WEFT_ABI_MAJOR, WEFT_ABI_MINOR, 0u, WEFT_ABI_TAG
typedef const weft_manifest *(*weft_plugin_entry_fn)(void);
__attribute__((visibility("default"))) const weft_manifest *weft_plugin_entry(void);
static inline weft_status weft_open_host(const weft_host *host, void **module)
{
    *module = (void *)(uintptr_t)host;
    return WEFT_OK;
}
static inline void *weft_new(const weft_host *host, uint64_t bytes, weft_status *st)
{
    void *p = *st == WEFT_OK ? host->alloc(host->ctx, bytes, 0) : NULL;
    if (*st == WEFT_OK && !p)
        *st = (host->fail)(host->ctx, WEFT_NO_MEMORY, "no memory for an object of this plugin");
    return p;
}
static inline weft_status weft_refuse_unknown(const weft_host *host)
{
    return (host->fail)(host->ctx, WEFT_UNSUPPORTED,
                        "the call asks for a flag or a field that this plugin does not know: the "
                        "program is newer than the plugin");
}
static inline weft_status weft_check_flags(const weft_host *host, uint64_t flags, uint64_t known)
{
    return flags & ~known ? weft_refuse_unknown(host) : WEFT_OK;
}
static inline weft_status weft_check_args(const weft_host *host, const void *args, size_t size,
                                          uint32_t known)
{
    return !weft_tail_is_zero(args, size) || (((const uint32_t *)args)[1] & ~known)
               ? weft_refuse_unknown(host)
               : WEFT_OK;
}
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
