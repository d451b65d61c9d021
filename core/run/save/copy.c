/* run/save/copy.c: see copy.h. */
#define _GNU_SOURCE
#include "run/save/copy.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#define LEAST (UINT64_C(4) << 20) /* bytes for which a thread is worth its start */
#define LIMIT 16u                 /* threads; few cores reach the bandwidth of a socket */
#define LINE 64u

/* Bytes [from, to) of the sequence. */
typedef struct share {
    const run_copy_part *parts;
    uint32_t n;
    uint64_t from, to;
    pthread_t thread;
    bool started;
} share;

static void *copy_share(void *arg)
{
    const share *s = arg;
    uint64_t at = 0; /* of the part in the sequence */
    for (uint32_t i = 0; i < s->n && at < s->to; at += s->parts[i++].bytes) {
        const run_copy_part *p = &s->parts[i];
        const uint64_t first = s->from > at ? s->from - at : 0;
        const uint64_t end = s->to - at < p->bytes ? s->to - at : p->bytes;
        if (first >= end)
            continue;
        if (p->from)
            memcpy((char *)p->to + first, (const char *)p->from + first, end - first);
        else
            memset((char *)p->to + first, 0, end - first);
    }
    return NULL;
}

void run_copy_parts(const run_copy_part *parts, uint32_t n, uint32_t threads)
{
    share s[LIMIT];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += parts[i].bytes;
    const uint64_t useful = bytes / LEAST + 1;
    threads = threads < LIMIT ? threads : LIMIT;
    threads = threads < useful ? threads : (uint32_t)useful;
    const uint64_t each = (bytes / threads + LINE) / LINE * LINE;
    for (uint32_t k = threads; k-- > 0;) {
        const uint64_t from = k * each < bytes ? k * each : bytes;
        s[k] = (share){parts, n, from, bytes - from < each ? bytes : from + each, 0, false};
        s[k].started = k && !pthread_create(&s[k].thread, NULL, copy_share, &s[k]);
        if (!s[k].started)
            copy_share(&s[k]);
    }
    for (uint32_t k = 1; k < threads; k++)
        if (s[k].started)
            pthread_join(s[k].thread, NULL);
}

void run_copy_touch(void *to, uint64_t bytes, uint32_t threads)
{
    run_copy_parts(&(run_copy_part){to, NULL, bytes}, 1, threads);
}

uint32_t run_copy_threads(uint32_t sharing)
{
    cpu_set_t set;
    const uint32_t cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
    const uint32_t own = cpus / (sharing ? sharing : 1);
    return own < 1 ? 1 : own < LIMIT ? own : LIMIT;
}
