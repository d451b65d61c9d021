/* harness.c: loading, conversions, and running one call. */
#include "harness.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* The options of a component: instruction set and threads of the caller, others of WEFT_OPS_CONF.
 */
static void set_options(struct bench *b, const weft_component *of, const char *isa, int threads)
{
    static host_component component;
    const char *conf = getenv("WEFT_OPS_CONF"), *set[CHECK_SETS];
    char words[1024];
    uint32_t n = 0;
    snprintf(words, sizeof words, "%s", conf ? conf : "");
    for (char *at = strtok(words, ","); at && n < CHECK_SETS; at = strtok(NULL, ","))
        set[n++] = at;
    snprintf(b->isa, sizeof b->isa, "%s", isa);
    snprintf(b->threads, sizeof b->threads, "%d", threads);
    component = (host_component){.name = of->name, .options = of->options, .own = of};
    b->host.set_of = &component;
    b->host.set_key = "isa";
    b->host.set_value = b->isa;
    b->host.also_key = threads ? "threads" : NULL;
    b->host.also_value = b->threads;
    check_options_set(set, n);
    b->conf = check_conf(&b->host, &component);
    check_options_set(NULL, 0);
}

enum { ARENA = 256 << 20 };

static weft_status open_device(struct bench *b)
{
    const weft_device_args args = {sizeof args, 0, 0, 1, b->conf, NULL};
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

static void open_module(struct bench *b, const char *isa, int threads)
{
    memset(b, 0, sizeof *b);
    check_host_begin(&b->host, "the host of a test");
    const weft_manifest *m = load();
    b->t = m->components[0]->table;
    b->close = m->close;
    set_options(b, m->components[0], isa, threads);
    assert_int_equal(m->open(&b->host.own, &b->module), WEFT_OK);
}

weft_status bench_open(struct bench *b, const char *isa, int threads)
{
    open_module(b, isa, threads);
    weft_status st = open_device(b);
    if (st != WEFT_OK) {
        b->t->close(b->d);
        b->close(b->module);
        check_host_end(&b->host);
    }
    return st;
}

void bench_close(struct bench *b)
{
    b->t->close(b->d);
    b->close(b->module);
    assert_int_equal(b->host.live, 0);
    assert_string_equal(b->host.misuse[CHECK_MISUSE_KEY], "");
    check_host_end(&b->host);
}

void bench_finish(struct bench *b)
{
    weft_status st = b->t->record(b->e, b->s, 0);
    while (st == WEFT_OK && (st = b->t->event_query(b->e, 0)) == WEFT_BUSY)
        ;
    if (st != WEFT_OK)
        fail_msg("%s", b->host.why);
}

const char *const *bench_isas(void)
{
    enum { SETS = 8 };
    static const char *have[SETS + 1] = {"auto"};
    static char text[256];
    struct bench b;
    uint64_t bytes = sizeof text;
    if (!bench_is_cpu() || *text)
        return have;
    open_module(&b, "auto", 1); /* and no device: with the first one oneDNN chooses, for good */
    assert_int_equal(b.t->kernel_sets(b.module, b.conf, text, &bytes), WEFT_OK);
    b.close(b.module);
    check_host_end(&b.host);
    for (char *at = strtok(text, "|"), **to = (char **)have; at; at = strtok(NULL, "|")) {
        assert_true(to < (char **)have + SETS);
        *to++ = at;
    }
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

static void look_around(const check_call *c, const char *p, uint64_t bytes)
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
        fail_msg("%s: %s", c->id, b->host.why);
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
    check_host_clear(&b->host);
    if (b->t->query(b->module, b->conf, &spec, &need) != WEFT_OK ||
        b->t->prepare(b->d, &spec, &p) != WEFT_OK)
        fail_msg("%s: %s", c->id, b->host.why);
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
        look_around(c, out[k], bytes);
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
