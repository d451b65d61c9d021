/* tests/comm/forked.c: see forked.h. */
#define _GNU_SOURCE
#include "forked.h"

#include "../key_file.h"
#include "../loopback.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"

static const char *const ifaces[] = {"weft.link/1", NULL};
const char *const *forked_settings;
uint32_t forked_nsettings;

static weft_status open_link(forked *f, const char *plugin, host **h, config **cfg)
{
    const host_component *c;
    char section[80];
    snprintf(section, sizeof section, "comm.%s", plugin);
    weft_status st = config_load(NULL, forked_settings, forked_nsettings, cfg);
    if (st == WEFT_OK)
        st = host_create(FORKED_PLUGINS, h);
    if (st == WEFT_OK && f->job)
        host_serve(*h, "weft.host.tls/1", job_tls_table(f->job));
    if (st == WEFT_OK)
        st = host_find(*h, "comm", plugin, ifaces, &c);
    if (st == WEFT_OK)
        st = host_open(*h, c);
    if (st == WEFT_OK)
        st = config_add(*cfg, section, plugin, c->options);
    if (st == WEFT_OK)
        st = config_check(*cfg);
    if (st != WEFT_OK)
        return st;
    f->caps = ((const weft_link_table *)c->table)->caps;
    return comm_add_link(f->world, (comm_part){c, config_conf(*cfg, section, c->own)},
                         (comm_part){0}, NULL, false, &f->link);
}

static weft_status map_arena(forked *f, uint64_t bytes)
{
    f->arena = (comm_arena){.bytes = bytes, .fd = memfd_create("arena", MFD_CLOEXEC)};
    if (f->arena.fd < 0 || ftruncate(f->arena.fd, (off_t)bytes))
        return err_fail_errno(WEFT_NO_MEMORY, "no memory file");
    f->arena.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->arena.fd, 0);
    return f->arena.base == MAP_FAILED ? err_fail_errno(WEFT_NO_MEMORY, "no arena") : WEFT_OK;
}

static weft_status child(const char *plugin, forked *f, uint64_t bytes, forked_body body,
                         const char *key, uint16_t port)
{
    job_identity who = {.rank = f->me,
                        .ranks = f->n,
                        .local_rank = f->me,
                        .local_ranks = f->n,
                        .launched = true,
                        .addr = "127.0.0.1",
                        .port = port};
    job_options opt = {.key_file = key, .frozen_after = 30, .join_timeout = 60};
    host *h = NULL;
    config *cfg = NULL;
    alarm(500); /* whatever a test does, nothing of it stays behind */
    weft_status st = job_join(&who, &opt, &f->job);
    if (st == WEFT_OK)
        st = comm_world_create(f->job, &who, &f->world);
    if (st == WEFT_OK)
        st = open_link(f, plugin, &h, &cfg);
    if (st == WEFT_OK)
        st = map_arena(f, bytes);
    if (st == WEFT_OK)
        st = body(f);
    char text[1024];
    snprintf(text, sizeof text, "%s", err_text());
    comm_world_destroy(f->world);
    host_destroy(h);
    config_destroy(cfg);
    const bool well = job_leave(f->job, st, text);
    job_free(f->job);
    if (!well && st == WEFT_OK)
        return WEFT_PEER;
    return err_fail(st, "%s", text);
}

static pid_t start(const char *plugin, forked f, uint64_t bytes, forked_body body, const char *key,
                   uint16_t port, int *out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        forked_end end = {0};
        end.st = child(plugin, &f, bytes, body, key, port);
        snprintf(end.text, sizeof end.text, "%s", err_text());
        _exit(write(ends[1], &end, sizeof end) == (ssize_t)sizeof end ? 0 : 1);
    }
    close(ends[1]);
    *out = ends[0];
    return pid;
}

int forked_run(const char *plugin, uint32_t n, uint64_t arena, forked_body body,
               const void *argument, forked_end *end)
{
    char key[64], so[512];
    pid_t pid[FORKED_MAX];
    int out[FORKED_MAX];
    snprintf(so, sizeof so, "%s/comm/%s.so", FORKED_PLUGINS, plugin);
    if (access(so, R_OK))
        return 0;
    snprintf(key, sizeof key, "/tmp/weft-comm-%d.key", (int)getpid());
    unlink(key);
    key_file_write(key);
    uint16_t port = loopback_port();
    for (uint32_t i = 0; i < n; i++) {
        forked f = {.me = i, .n = n, .argument = argument};
        pid[i] = start(plugin, f, arena, body, key, port, &out[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        memset(&end[i], 0, sizeof end[i]);
        if (read(out[i], &end[i], sizeof end[i]) != (ssize_t)sizeof end[i])
            end[i].st = WEFT_INTERNAL;
        close(out[i]);
        waitpid(pid[i], &end[i].wait_status, 0);
    }
    unlink(key);
    return 1;
}

void *forked_take(forked *f, uint64_t bytes)
{
    uint64_t at = f->used;
    if (bytes > f->arena.bytes - at)
        return NULL;
    f->used = (at + bytes + 127) & ~(uint64_t)63;
    if (f->used > f->arena.bytes)
        f->used = f->arena.bytes;
    return (char *)f->arena.base + at;
}
