/* bad/coll/coll.c: communicators of a library that fails checks of the group coll. Each name of
 * coll.expected breaks one rule. See coll.h. */
#define _GNU_SOURCE
#include "coll.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

weft_status coll_fail(const module *m, weft_status code, const char *what)
{
    return m->host->fail(m->host->ctx, code, what);
}

static weft_status probe(void *m, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    (void)conf;
    *score = caps & WEFT_DEV_HOST_MEMORY ? 3 : 0;
    if (!*score)
        (void)!coll_fail((module *)m, WEFT_UNSUPPORTED, "it works on host memory only");
    return WEFT_OK;
}

/* --- files --- */

/* A new file, which the module keeps until it is closed. */
static weft_status new_file(module *m, file *out)
{
    const int fd = m->nfiles < FILES ? memfd_create("acme-coll", MFD_CLOEXEC) : -1;
    if (fd < 0 || ftruncate(fd, sizeof(common))) {
        if (fd >= 0)
            close(fd);
        return coll_fail(m, WEFT_IO, "no memory for a communicator");
    }
    m->files[m->nfiles++] = fd;
    *out = (file){getpid(), fd};
    return WEFT_OK;
}

static weft_status make_id(void *given, const weft_conf *conf, void *out, uint64_t *bytes)
{
    module *m = given;
    file id = {getpid(), m->nfiles ? m->files[0] : 0};
    (void)conf;
    if (*bytes < sizeof id)
        return coll_fail(m, WEFT_USAGE, "an id has 8 bytes");
    weft_status st = BAD == SAME_IDS && m->nfiles ? WEFT_OK : new_file(m, &id);
    if (st != WEFT_OK)
        return st;
    memcpy(out, &id, sizeof id);
    *bytes = sizeof id;
    return WEFT_OK;
}

static weft_status attach(weft_comm *c, const file *id)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", id->process, id->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(common), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return coll_fail(c->m, WEFT_PEER, "the memory of the communicator is gone");
    c->shared = at;
    atomic_store(&c->shared->process[c->rank], getpid());
    atomic_store(&c->shared->in[c->rank], 1);
    return WEFT_OK;
}

/* --- communicators --- */

static weft_status open_comm(void *given, const weft_coll_args *a, weft_comm **out)
{
    module *m = given;
    weft_status st = weft_check_args(m->host, a, sizeof *a, 0);
    file id;
    if (st != WEFT_OK)
        return st;
    if (a->ranks > RANKS || a->stream || (!a->parent && a->id_bytes != sizeof id))
        return coll_fail(m, WEFT_UNSUPPORTED, "it joins at most 8 ranks, on host memory");
    weft_comm *c = m->host->alloc(m->host->ctx, sizeof *c, 0);
    if (!c)
        return coll_fail(m, WEFT_NO_MEMORY, "no memory for a communicator");
    *c = (weft_comm){.m = m,
                     .parent = a->parent,
                     .rank = a->rank,
                     .ranks = a->ranks,
                     .color = BAD == SPLIT_MIXES ? 0 : a->color};
    if (!a->parent) {
        memcpy(&id, a->id, sizeof id);
        st = attach(c, &id);
    }
    if (st == WEFT_OK)
        *out = c;
    else
        m->host->free(m->host->ctx, c);
    return st;
}

/* The first rank of a part creates its file and tells the others in the parent's memory. */
static weft_status find_part(weft_comm *c)
{
    common *of = c->parent->shared;
    child *my = &of->children[c->color % CHILDREN];
    uint32_t nobody = 0;
    if (!c->rank && atomic_compare_exchange_strong(&my->there, &nobody, 1)) {
        const weft_status st = new_file(c->m, &my->id);
        if (st != WEFT_OK)
            return st;
        my->color = c->color;
        atomic_store(&my->there, 2);
    }
    return atomic_load(&my->there) == 2 ? attach(c, &my->id) : WEFT_BUSY;
}

static weft_status ready(weft_comm *c)
{
    const weft_status st = c->shared ? WEFT_OK : find_part(c);
    if (st != WEFT_OK)
        return st;
    for (uint32_t r = 0; r < c->ranks; r++)
        if (!atomic_load(&c->shared->in[r]) && BAD != READY_ALONE)
            return WEFT_BUSY;
    return WEFT_OK;
}

static int is_closed(const weft_comm *c)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        if (!atomic_load(&c->shared->out[r]))
            return 0;
    return 1;
}

static void close_comm(weft_comm *c)
{
    if (!c)
        return;
    if (c->shared) {
        atomic_store(&c->shared->out[c->rank], 1);
        while (BAD == CLOSE_WAITS && !c->asked && atomic_load(&c->shared->aborted) && !is_closed(c))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        munmap(c->shared, sizeof *c->shared);
    }
    c->m->host->free(c->m->host->ctx, c);
}

static weft_status register_memory(weft_comm *c, void *base, uint64_t bytes, uint32_t flags)
{
    (void)base, (void)bytes;
    if (flags)
        return weft_refuse_unknown(c->m->host);
    c->broken = BAD == REGISTER_BREAKS;
    return coll_fail(c->m, WEFT_UNSUPPORTED, "it registers no memory");
}

static weft_status health(weft_comm *c)
{
    c->asked = 1;
    return c->broken && BAD != HEALTHY_FOREVER ? coll_fail(c->m, WEFT_PEER, "a rank has gone")
                                               : WEFT_OK;
}

static void abort_comm(weft_comm *c)
{
    if (BAD == ABORT_TWICE && c->aborts++)
        abort();
    if (c->shared)
        atomic_store(&c->shared->aborted, 1);
}

/* --- the plugin --- */

static weft_status open_module(const weft_host *host, void **out)
{
    module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for the module");
    m->host = host;
    *out = m;
    return WEFT_OK;
}

static void close_module(void *given)
{
    module *m = given;
    if (!m)
        return;
    for (int i = 0; i < m->nfiles; i++)
        close(m->files[i]);
    m->host->free(m->host->ctx, m);
}

static const weft_coll_table table = {
    .struct_size = sizeof table,
    .caps = WEFT_COLL_HOST,
    .probe = probe,
    .id = make_id,
    .open = open_comm,
    .ready = ready,
    .close = close_comm,
    .register_memory = register_memory,
    .begin = coll_begin,
    .end = coll_end,
    .call = coll_call,
    .health = health,
    .abort = abort_comm,
    .test = coll_test,
    .supports = coll_supports,
};
static const weft_component component = {
    sizeof component, 0,   "weft.coll/1", "acme.bad", "collectives in shared memory", NULL,
    &table,           NULL};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("org.acme.bad", "1", "", components, open_module, close_module);
