/* run/view/meter.c: see meter.h. */
#include "run/view/meter.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/host.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#define NAME_MAX 63u
#define UNIT_MAX 31u

/* A NaN that arithmetic does not make; a NaN of a plugin is stored as another one. */
#define NONE UINT64_C(0x7ff8a5c3e1d20b47)

typedef struct place {
    char name[NAME_MAX + 1], unit[UNIT_MAX + 1];
    uint32_t how;
    bool warned; /* that the name is taken */
    _Atomic uint64_t bits;
} place;

struct run_meter {
    weft_host_metrics table;
    pthread_mutex_t lock; /* of declarations */
    _Atomic uint32_t n;
    place at[METER_MAX];
};

static uint64_t bits_of(double v)
{
    uint64_t bits;
    v = isnan(v) ? (double)NAN : v;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* --- declaring --- */

static bool is_printable(const char *text, uint32_t max)
{
    const size_t n = strnlen(text, max + 1);
    for (size_t i = 0; i < n; i++)
        if (text[i] < 32 || text[i] > 126)
            return false;
    return n <= max;
}

static weft_status check(const char *name, const char *unit, uint32_t how, uint32_t flags,
                         const uint32_t *out)
{
    if (!name || !out)
        return err_fail(WEFT_USAGE, "metrics.declare(): %s is NULL", name ? "out" : "name");
    if (!is_printable(name, NAME_MAX) || !strchr(name, '.') || strchr(name, ' '))
        return err_fail(WEFT_USAGE,
                        "metrics.declare(): '%.63s' is no name of a metric: 1 to %u printable "
                        "bytes with a dot and without spaces, such as acme.retries",
                        name, NAME_MAX);
    if (unit && !is_printable(unit, UNIT_MAX))
        return err_fail(WEFT_USAGE,
                        "metrics.declare(): the unit of '%s' has more than %u bytes, or some that "
                        "are not printable",
                        name, UNIT_MAX);
    if (how < WEFT_METRICS_LAST || how > WEFT_METRICS_MAX || flags)
        return err_fail(WEFT_UNSUPPORTED,
                        "metrics.declare(): '%s' has how = %u and flags = 0x%x; this version of "
                        "weft knows WEFT_METRICS_LAST (1), _SUM (2), _MAX (3) and no flags",
                        name, how, flags);
    return WEFT_OK;
}

/* The place of a name, added if it is new; under the lock. */
static weft_status find(run_meter *m, const char *name, const char *unit, uint32_t how,
                        uint32_t *out)
{
    const uint32_t n = atomic_load_explicit(&m->n, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        const place *p = &m->at[i];
        if (strcmp(p->name, name) != 0)
            continue;
        if (p->how != how || strcmp(p->unit, unit) != 0)
            return err_fail(WEFT_USAGE,
                            "metrics.declare(): '%s' was declared with another unit or another way "
                            "to count its values",
                            name);
        *out = i;
        return WEFT_OK;
    }
    if (n == METER_MAX)
        return err_fail(WEFT_USAGE,
                        "metrics.declare(): '%s' is one metric too many: the plugins of a job may "
                        "declare %u",
                        name, METER_MAX);
    place *p = &m->at[n];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    p->how = how;
    atomic_store_explicit(&m->n, n + 1, memory_order_release);
    *out = n;
    return WEFT_OK;
}

static weft_status declare(void *ctx, const char *name, const char *unit, uint32_t how,
                           uint32_t flags, uint32_t *out)
{
    run_meter *m = ctx;
    uint32_t i = 0;
    weft_status st = check(name, unit, how, flags, out);
    if (st != WEFT_OK)
        return st;
    pthread_mutex_lock(&m->lock);
    st = find(m, name, unit ? unit : "", how, &i);
    pthread_mutex_unlock(&m->lock);
    if (st == WEFT_OK)
        *out = i + 1; /* 0 is no metric */
    return st;
}

/* --- adding --- */

static double merged(uint32_t how, double old, double value)
{
    if (how == WEFT_METRICS_SUM)
        return old + value;
    return how == WEFT_METRICS_MAX && (old > value || isnan(old)) ? old : value;
}

static void add(void *ctx, uint32_t metric, double value)
{
    run_meter *m = ctx;
    if (!metric || metric > atomic_load_explicit(&m->n, memory_order_acquire))
        return;
    place *p = &m->at[metric - 1];
    uint64_t old = atomic_load_explicit(&p->bits, memory_order_relaxed), now;
    do
        now = bits_of(old == NONE ? value : merged(p->how, value_of(old), value));
    while (!atomic_compare_exchange_weak_explicit(&p->bits, &old, now, memory_order_relaxed,
                                                  memory_order_relaxed));
}

/* --- collecting --- */

static bool is_taken(const char *name, const weft_metric *taken, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(taken[i].name, name))
            return true;
    return false;
}

uint32_t run_meter_collect(run_meter *m, const weft_metric *taken, uint32_t n, weft_metric *out)
{
    const uint32_t all = atomic_load_explicit(&m->n, memory_order_acquire);
    uint32_t found = 0;
    for (uint32_t i = 0; i < all; i++) {
        place *p = &m->at[i];
        const uint64_t bits = atomic_exchange_explicit(&p->bits, NONE, memory_order_relaxed);
        if (bits == NONE)
            continue;
        if (!is_taken(p->name, taken, n)) {
            out[found++] = (weft_metric){p->name, p->unit, value_of(bits), WEFT_METRIC_GAUGE, 0};
        } else if (!p->warned) {
            p->warned = true;
            log_line(WEFT_LOG_WARN, "two plugins have a metric '%s': the one added is left out",
                     p->name);
        }
    }
    return found;
}

run_meter *run_meter_create(void)
{
    run_meter *m = mem_alloc(sizeof *m);
    m->table = (weft_host_metrics){sizeof m->table, 0, m, declare, add};
    pthread_mutex_init(&m->lock, NULL);
    for (uint32_t i = 0; i < METER_MAX; i++)
        atomic_init(&m->at[i].bits, NONE);
    return m;
}

void run_meter_free(run_meter *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

const void *run_meter_table(run_meter *m)
{
    return &m->table;
}
