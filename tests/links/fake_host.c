/* fake_host.c: a small host: counts what is allocated, keeps the last failure of a thread, answers
 * options from the node or from their defaults. */
#include "rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong allocated;
static _Thread_local char why[1024];

const char *fake_why(void)
{
    return why;
}

int64_t fake_allocated(void)
{
    return atomic_load(&allocated);
}

static void *fake_alloc(void *ctx, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)ctx;
    if (posix_memalign(&p, align < 16 ? 16 : align, bytes ? bytes : 1) != 0)
        return NULL;
    atomic_fetch_add(&allocated, 1);
    return memset(p, 0, bytes);
}

static void fake_free(void *ctx, void *p)
{
    (void)ctx;
    if (p)
        atomic_fetch_sub(&allocated, 1);
    free(p);
}

static int32_t fake_log_enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return level <= WEFT_LOG_WARN;
}

static void fake_log(void *ctx, int32_t level, const char *text)
{
    if (level <= WEFT_LOG_WARN)
        fprintf(stderr, "  log (rank %u): %s\n", ((node *)ctx)->rank, text);
}

static weft_status fake_fail(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    snprintf(why, sizeof why, "%s", text);
    return code;
}

static const void *fake_iface(void *ctx, const char *id)
{
    node *n = ctx;
    if (strcmp(id, "weft.host.tls/1") == 0 && !n->no_tls)
        return fake_tls(n);
    return NULL;
}

const char *fake_text(const node *n, const char *key)
{
    for (size_t i = 0; i < 4; i++)
        if (n->options[i][0] && strcmp(n->options[i][0], key) == 0)
            return n->options[i][1];
    for (char **s = rig_settings; *s; s++)
        if (strncmp(*s, key, strlen(key)) == 0 && (*s)[strlen(key)] == '=')
            return *s + strlen(key) + 1;
    for (const weft_option *const *o = rig_plugin->options; o && *o; o++)
        if (strcmp((*o)->key, key) == 0)
            return (*o)->dflt;
    fprintf(stderr, "the plugin asks for option '%s', which it did not declare\n", key);
    abort();
}

static const char *conf_text(void *ctx, const char *key)
{
    return fake_text(ctx, key);
}

static int64_t conf_integer(void *ctx, const char *key)
{
    const char *text = fake_text(ctx, key);
    char *end = NULL;
    if (strcmp(text, "on") == 0 || strcmp(text, "off") == 0)
        return text[1] == 'n';
    if (strcmp(text, "auto") == 0)
        return 0;
    long long v = strtoll(text, &end, 10);
    return *end == 'K' ? v << 10 : *end == 'M' ? v << 20 : *end == 'G' ? v << 30 : v;
}

static double conf_real(void *ctx, const char *key)
{
    return strtod(fake_text(ctx, key), NULL);
}

static uint32_t conf_reals(void *ctx, const char *key, double *out, uint32_t cap)
{
    (void)ctx, (void)key, (void)out, (void)cap;
    return 0;
}

void fake_host_init(node *n)
{
    n->host = (weft_host){.struct_size = sizeof n->host,
                          .abi_major = WEFT_ABI_MAJOR,
                          .abi_minor = WEFT_ABI_MINOR,
                          .ctx = n,
                          .alloc = fake_alloc,
                          .free = fake_free,
                          .log_enabled = fake_log_enabled,
                          .log = fake_log,
                          .fail = fake_fail,
                          .iface = fake_iface};
    n->conf = (weft_conf){.struct_size = sizeof n->conf,
                          .ctx = n,
                          .text = conf_text,
                          .integer = conf_integer,
                          .real = conf_real,
                          .reals = conf_reals};
}
