/* harness.c: host table, loading, conversions, and running one call. */
#include "harness.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* --- host --- */

static void *host_alloc(void *ctx, uint64_t bytes, uint64_t align)
{
    void *p = NULL;
    (void)ctx;
    if (posix_memalign(&p, align < 16 ? 16 : align, bytes) != 0)
        return NULL;
    return memset(p, 0, bytes);
}

static void host_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int32_t host_log_enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return level <= WEFT_LOG_WARN;
}

static void host_log(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "%s\n", text);
}

static weft_status host_fail(void *ctx, weft_status code, const char *text)
{
    struct bench *b = ctx;
    snprintf(b->said, sizeof b->said, "%s", text);
    return code;
}

static const void *host_iface(void *ctx, const char *id)
{
    (void)ctx;
    (void)id;
    return NULL;
}

/* What WEFT_OPS_CONF says about a key: its value into `out`, or false. */
static int asked(const char *key, char *out, size_t cap)
{
    const char *conf = getenv("WEFT_OPS_CONF");
    const size_t n = strlen(key);
    for (const char *p = conf; p && *p != 0; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, key, n) == 0 && p[n] == '=') {
            snprintf(out, cap, "%.*s", (int)strcspn(p + n + 1, ","), p + n + 1);
            return 1;
        }
    return 0;
}

static const char *conf_text(void *ctx, const char *key)
{
    static char value[1024];
    struct bench *b = ctx;
    if (asked(key, value, sizeof value))
        return value;
    if (strcmp(key, "isa") == 0)
        return b->isa;
    if (strcmp(key, "threads") == 0)
        return b->threads;
    for (const weft_option *const *o = b->options; *o; o++)
        if (strcmp((*o)->key, key) == 0)
            return (*o)->dflt;
    fail_msg("the device asks for the key %s, which it has not declared", key);
    return NULL;
}

static int64_t conf_integer(void *ctx, const char *key)
{
    const char *v = conf_text(ctx, key);
    return strcmp(v, "on") == 0 ? 1 : strtoll(v, NULL, 10);
}

int bench_is_cpu(void)
{
    return !getenv("WEFT_OPS_DEVICE");
}

static const weft_manifest *load(void)
{
    const char *path = bench_is_cpu() ? WEFT_CPU_SO : getenv("WEFT_OPS_DEVICE");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        fail_msg("%s", dlerror());
    weft_plugin_entry_fn entry;
    *(void **)&entry = dlsym(so, "weft_plugin_entry");
    assert_non_null(entry);
    const weft_manifest *m = entry();
    assert_int_equal(m->magic, WEFT_MAGIC);
    assert_string_equal(m->components[0]->iface, "weft.device/1");
    return m;
}

enum { ARENA = 256 << 20 };

static weft_status open_device(struct bench *b)
{
    const weft_device_args args = {sizeof args, 0, 0, 1, &b->conf, NULL};
    void *base = NULL;
    int32_t fd;
    weft_status st = b->t->open(b->module, &args, &b->d);
    if (st == WEFT_OK)
        st = b->t->stream(b->d, 0, &b->s);
    if (st == WEFT_OK)
        st = b->t->event(b->d, &b->e);
    if (st == WEFT_OK && !(b->t->caps & WEFT_DEV_HOST_MEMORY))
        st = b->t->arena(b->d, ARENA, 0, &base, &fd);
    b->arena = base;
    return st;
}

weft_status bench_open(struct bench *b, const char *isa, int threads)
{
    memset(b, 0, sizeof *b);
    b->host = (weft_host){sizeof b->host, WEFT_ABI_MAJOR,   WEFT_ABI_MINOR, b,         host_alloc,
                          host_free,      host_log_enabled, host_log,       host_fail, host_iface};
    b->conf = (weft_conf){
        .struct_size = sizeof b->conf, .ctx = b, .text = conf_text, .integer = conf_integer};
    snprintf(b->isa, sizeof b->isa, "%s", isa);
    snprintf(b->threads, sizeof b->threads, "%d", threads);
    const weft_manifest *m = load();
    b->t = m->components[0]->table;
    b->options = m->components[0]->options;
    b->close = m->close;
    assert_int_equal(m->open(&b->host, &b->module), WEFT_OK);
    weft_status st = open_device(b);
    if (st != WEFT_OK) {
        b->t->close(b->d);
        m->close(b->module);
    }
    return st;
}

void bench_close(struct bench *b)
{
    b->t->close(b->d);
    b->close(b->module);
}

void bench_finish(struct bench *b)
{
    weft_status st = b->t->record(b->e, b->s, 0);
    while (st == WEFT_OK && (st = b->t->event_query(b->e, 0)) == WEFT_BUSY)
        ;
    if (st != WEFT_OK)
        fail_msg("%s", b->said);
}

#if defined(__x86_64__)
static void find_isas(const char *have[5])
{
    const int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    have[0] = "v2";
    have[1] = v3 ? "v3" : NULL;
    have[2] = v4 ? "v4" : NULL;
    have[3] = v4 && __builtin_cpu_supports("avx512bf16") ? "v4bf16" : NULL;
}
#else
static void find_isas(const char *have[5])
{
    have[0] = "plain";
}
#endif

const char *const *bench_isas(void)
{
    static const char *have[5] = {"auto"};
    if (bench_is_cpu())
        find_isas(have);
    return have;
}

/* --- values --- */

void encode(void *to, uint32_t dtype, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        check_operand_put(dtype, to, i, from[i]);
}

void decode(double *to, uint32_t dtype, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = check_operand_get(dtype, from, i);
}

double uniform(double lo, double hi)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return lo + (hi - lo) * (double)(state >> 11) * 0x1p-53;
}

void reference(const check_call *c)
{
    if (!check_reference(c))
        fail_msg("check/reference does not know the op %s", c->id);
}

/* --- running --- */

enum { GUARD = 64, POISON = 0xff };

/* A buffer with GUARD bytes of poison on both sides. */
static char *guarded(uint64_t bytes)
{
    char *p = malloc(bytes + 2 * GUARD + 64);
    assert_non_null(p);
    memset(p, POISON, bytes + 2 * GUARD);
    return p + GUARD;
}

static void check_guard(const check_call *c, const char *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < GUARD; i++)
        if (((const unsigned char *)p)[bytes + i] != POISON ||
            ((const unsigned char *)p)[-(int64_t)i - 1] != POISON)
            fail_msg("%s wrote outside of a buffer of %llu bytes", c->id,
                     (unsigned long long)bytes);
}

/* Buffers in, filled, and out. */
static void make_buffers(const check_call *c, char **in, char **out)
{
    for (uint32_t k = 0; k < c->nin; k++) {
        in[k] = c->x[k] ? guarded(check_operand_bytes(&c->in[k])) : NULL;
        if (in[k])
            encode(in[k], c->in[k].dtype, c->x[k], check_operand_count(&c->in[k]));
    }
    for (uint32_t k = 0; k < c->nout; k++) {
        out[k] = c->over[k]             ? in[c->over[k] - 1]
                 : c->out[k].dtype == 0 ? NULL
                                        : guarded(check_operand_bytes(&c->out[k]));
        if (out[k] && c->flags & WEFT_SPEC_ACCUMULATE)
            encode(out[k], c->out[k].dtype, c->y[k], check_operand_count(&c->out[k]));
    }
}

/* --- on a device whose memory is its own: buffers of the host above, copied there and back --- */

struct shelf { /* the arena, filled from its beginning */
    struct bench *b;
    uint64_t used;
};

/* Room for a guarded buffer, and what is in it; NULL stays NULL. */
static char *put_there(struct shelf *s, const char *from, uint64_t bytes)
{
    char *at = s->b->arena + s->used + GUARD;
    const uint64_t whole = (bytes + 2 * GUARD + 63) / 64 * 64;
    if (!from)
        return NULL;
    s->used += whole;
    if (s->used > ARENA)
        fail_msg("a call that is too large for the harness");
    assert_int_equal(
        s->b->t->copy(s->b->d, s->b->s, at - GUARD, from - GUARD, bytes + 2 * GUARD, 0), WEFT_OK);
    bench_finish(s->b);
    return at;
}

static void run_there(struct bench *b, const check_call *c, weft_prepared *p, char **in, char **out,
                      uint64_t workspace)
{
    struct shelf s = {.b = b};
    char *at_in[WEFT_MAX_OPERANDS] = {0}, *at_out[WEFT_MAX_OPERANDS] = {0};
    unsigned char tail[GUARD];
    for (uint32_t k = 0; k < c->nin; k++)
        at_in[k] = put_there(&s, in[k], check_operand_bytes(&c->in[k]));
    for (uint32_t k = 0; k < c->nout; k++)
        at_out[k] = c->over[k] ? at_in[c->over[k] - 1]
                               : put_there(&s, out[k], check_operand_bytes(&c->out[k]));
    char *ws = b->arena + s.used;
    assert_true(s.used + workspace + GUARD <= ARENA);
    assert_int_equal(b->t->fill(b->d, b->s, ws, POISON, workspace + GUARD, 0), WEFT_OK);
    if (b->t->run(p, b->s, (const void *const *)at_in, (void *const *)at_out, ws, 0) != WEFT_OK)
        fail_msg("%s: %s", c->id, b->said);
    for (uint32_t k = 0; k < c->nout; k++)
        if (out[k])
            assert_int_equal(b->t->copy(b->d, b->s, out[k] - GUARD, at_out[k] - GUARD,
                                        check_operand_bytes(&c->out[k]) + 2 * GUARD, 0),
                             WEFT_OK);
    assert_int_equal(b->t->copy(b->d, b->s, tail, ws + workspace, GUARD, 0), WEFT_OK);
    bench_finish(b);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(tail[i], POISON);
}

/* True where the CPU says that the upper halves of vector registers are in use. */
#if defined(__x86_64__)
static int upper_in_use(void)
{
    enum { TELLS = 4, YMM = 4, ZMM = 64 };
    uint32_t a, b, c, d, in_use, high;
    if (!__get_cpuid_count(13, 1, &a, &b, &c, &d) || !(a & TELLS))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(high) : "c"(1));
    return (in_use & (YMM | ZMM)) != 0;
}
#else
static int upper_in_use(void)
{
    return 0;
}
#endif

static void run_here(struct bench *b, weft_prepared *p, char **in, char **out, uint64_t workspace)
{
    char *ws = NULL;
    assert_int_equal(posix_memalign((void **)&ws, 64, workspace + GUARD), 0);
    memset(ws, POISON, workspace + GUARD);
    const weft_status st = b->t->run(p, b->s, (const void *const *)in, (void *const *)out, ws, 0);
    const int slow = upper_in_use(); /* code with SSE instructions, from here on */
    assert_int_equal(st, WEFT_OK);
    if (slow)
        fail_msg("kernels %s leave the upper halves of vector registers in use", b->isa);
    for (uint64_t i = 0; i < GUARD; i++)
        assert_int_equal((unsigned char)ws[workspace + i], POISON);
    free(ws);
}

static weft_prepared *make_ready(struct bench *b, const check_call *c, uint64_t *workspace)
{
    const weft_opspec spec = check_call_spec(c);
    weft_requirements need = {.struct_size = sizeof need};
    weft_prepared *p = NULL;
    if (b->t->query(b->module, &b->conf, &spec, &need) != WEFT_OK ||
        b->t->prepare(b->d, &spec, &p) != WEFT_OK)
        fail_msg("%s: %s", c->id, b->said);
    *workspace = need.workspace;
    return p;
}

void device_run(struct bench *b, const check_call *c, void **got)
{
    char *in[WEFT_MAX_OPERANDS] = {0}, *out[WEFT_MAX_OPERANDS] = {0};
    uint64_t workspace, other;
    weft_prepared *p = make_ready(b, c, &workspace);
    weft_prepared *beside = b->beside ? make_ready(b, b->beside, &other) : NULL;
    make_buffers(c, in, out);
    if (b->arena)
        run_there(b, c, p, in, out, workspace);
    else
        run_here(b, p, in, out, workspace);
    b->t->release(p);
    b->t->release(beside);
    for (uint32_t k = 0; k < c->nout; k++) {
        const uint64_t bytes = check_operand_bytes(&c->out[k]);
        got[k] = NULL;
        if (!out[k])
            continue;
        check_guard(c, out[k], bytes);
        got[k] = malloc(bytes);
        memcpy(got[k], out[k], bytes);
        if (!c->over[k])
            free(out[k] - GUARD);
    }
    for (uint32_t k = 0; k < c->nin; k++)
        if (in[k])
            free(in[k] - GUARD);
}

void expect_close(const char *what, const double *got, const double *want, int64_t n, double tol)
{
    double rms = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]))
            rms += want[i] * want[i];
    rms = sqrt(rms / (double)n);
    for (int64_t i = 0; i < n; i++) {
        const int same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
        if (!same && !(fabs(got[i] - want[i]) <= tol * (fabs(want[i]) + rms)))
            fail_msg("%s: element %lld of %lld is %.9g, should be %.9g (rms %.3g, tolerance %g)",
                     what, (long long)i, (long long)n, got[i], want[i], rms, tol);
    }
}
