/* bench/overhead/calls.c: what a call of a plugin costs beyond the call itself (core/host/call.h).
 *
 *   calls            prints a line for each kind of call, and exits with 1 above 20 ns */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "host/call.h"
#include "host/watch.h"

enum { CALLS = 2000000, ROUNDS = 25 };

typedef struct table {
    weft_status (*progress)(uint64_t *n);
    void (*wake)(uint64_t *n);
} table;

__attribute__((noinline)) static weft_status progress(uint64_t *n)
{
    ++*n;
    __asm__ volatile("" : : : "memory");
    return WEFT_OK;
}

__attribute__((noinline)) static void wake(uint64_t *n)
{
    ++*n;
    __asm__ volatile("" : : : "memory");
}

static table own = {progress, wake};

enum kind { DIRECT, STATUS, NOTHING, NEXT, KINDS };
static const char *const names[] = {"without the macros", "PLUGIN_CALL", "PLUGIN_DO",
                                    "call_row_next"};

static uint64_t run(enum kind k, const table *volatile *t)
{
    uint64_t n = 0;
    host_call_row row = call_row_begin(CALLS);
    for (uint32_t i = 0; i < CALLS; i++) {
        const table *to = *t;
        if (k == DIRECT && to->progress(&n) != WEFT_OK)
            return 0;
        if (k == STATUS && PLUGIN_CALL(to, progress, &n) != WEFT_OK)
            return 0;
        if (k == NOTHING)
            PLUGIN_DO(to, wake, &n);
        if (k == NEXT) {
            call_row_next(&row);
            if (to->progress(&n) != WEFT_OK)
                return 0;
        }
    }
    return n;
}

static double nanoseconds(enum kind k)
{
    static const table *volatile t = &own;
    call_enter(&own, "run");
    const uint64_t began = clock_ns();
    const uint64_t n = run(k, &t);
    const uint64_t ended = clock_ns();
    call_leave();
    return n == CALLS ? (double)(ended - began) / CALLS : 1e9;
}

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

int main(void)
{
    static double ns[KINDS][ROUNDS];
    double median[KINDS];
    int status = 0;
    host_watch_begin();                            /* it reads the slot meanwhile */
    host_call_site *sites = host_sites_new(CALLS); /* rows need a call to be in, at sites */
    call_site_enter(sites);
    for (uint32_t r = 0; r < ROUNDS; r++)
        for (uint32_t k = 0; k < KINDS; k++)
            ns[k][r] = nanoseconds((enum kind)k);
    host_sites_free(sites);
    host_watch_end();
    for (uint32_t k = 0; k < KINDS; k++) {
        qsort(ns[k], ROUNDS, sizeof ns[k][0], by_value);
        median[k] = ns[k][ROUNDS / 2];
        printf("%-22s %6.2f ns a call, %5.2f of them for the watch\n", names[k], median[k],
               median[k] - median[DIRECT]);
        status |= median[k] - median[DIRECT] > 20;
    }
    return status;
}
