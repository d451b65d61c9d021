/* tests/plugins/wild.c: an update rule and a transport in one object, which misbehave on request.
 *
 * WEFT_WILD="CALL DEED" says in which call it does what: "open exit", "update crash". The entry and
 * the constructor are calls too. Without it the rule is plain gradient descent. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <weft/link.h>
#include <weft/optim.h>

static volatile int zero;
static volatile uintptr_t nowhere = 64;

static int overflow(volatile int *depth)
{
    volatile char much[65536];
    much[0] = (char)*depth;
    return *depth < 0 ? 0 : overflow(depth) + much[0];
}

/* Faults are to come from the machine, not from a sanitizer that sees them coming. */
__attribute__((no_sanitize("undefined"))) static weft_status wild(const char *call)
{
    const char *wish = getenv("WEFT_WILD");
    const size_t n = strlen(call);
    if (!wish || strncmp(wish, call, n) || wish[n] != ' ')
        return WEFT_OK;
    const char *deed = wish + n + 1;
    if (!strcmp(deed, "exit"))
        exit(0);
    if (!strcmp(deed, "_exit"))
        _exit(0);
    if (!strcmp(deed, "syscall"))
        syscall(SYS_exit_group, 0);
    while (!strcmp(deed, "hang"))
        pause();
    while (!strcmp(deed, "spin"))
        zero = 0;
    if (!strcmp(deed, "crash"))
        *(volatile int *)nowhere = 1;
    if (!strcmp(deed, "divide"))
        zero = 100 / zero;
    if (!strcmp(deed, "abort"))
        abort();
    if (!strcmp(deed, "deep"))
        zero = overflow(&zero);
    return !strcmp(deed, "silent") ? WEFT_IO
           : !strcmp(deed, "busy") ? WEFT_BUSY
           : !strcmp(deed, "odd")  ? (weft_status)77
                                   : WEFT_OK;
}

__attribute__((constructor)) static void loaded(void)
{
    (void)!wild("constructor");
}

/* Ask for more and more: bytes of the core's, or tensors. */
static weft_status grow(const weft_host *host, const weft_builder *b, const weft_update *u)
{
    const char *wish = getenv("WEFT_WILD");
    weft_tensor sum = u->grad;
    weft_status st = WEFT_OK;
    if (!wish || strncmp(wish, "update more ", 12))
        return WEFT_OK;
    if (!strcmp(wish + 12, "bytes")) {
        void **last = NULL; /* each block begins with the address of the one before */
        for (void **more = NULL; (more = host->alloc(host->ctx, 1 << 20, 0)); last = more)
            *more = last;
        while (last) {
            void **before = *last;
            host->free(host->ctx, last);
            last = before;
        }
        return host->fail(host->ctx, WEFT_NO_MEMORY, "no memory for this rule");
    }
    while (!strcmp(wish + 12, "names") && st == WEFT_OK)
        st = b->op(b->ctx, "add", NULL, 0, (weft_tensor[]){sum, u->grad}, 2, 0, &sum, 1);
    return st;
}

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)module, (void)conf;
    weft_tensor step, next, in[] = {u->grad, u->lr};
    weft_status st = wild("update");
    if (st == WEFT_OK)
        st = grow(module, b, u);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "mul", NULL, 0, in, 2, 0, &step, 1);
    if (st == WEFT_OK)
        st = b->op(b->ctx, "sub", NULL, 0, (weft_tensor[]){u->param, step}, 2, 0, &next, 1);
    return st == WEFT_OK ? b->assign(b->ctx, u->param, next, 0) : st;
}

static weft_status probe(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score)
{
    (void)module, (void)conf, (void)group;
    *score = 1;
    return wild("probe");
}

static weft_status create(void *module, const weft_link_args *args, weft_link **out)
{
    const weft_host *host = module;
    (void)out;
    const char *wish = getenv("WEFT_WILD");
    if (args->rank != 1 && wish && !strncmp(wish, "create ", 7))
        sleep(5); /* rank 1 is to be the first that fails; the launcher ends this one */
    weft_status st = args->rank == 1 ? wild("create") : WEFT_OK;
    if (st == WEFT_OK)
        st = host->fail(host->ctx, WEFT_UNSUPPORTED, "this transport goes nowhere");
    return st;
}

static weft_status any(void)
{
    return WEFT_UNSUPPORTED;
}

static void none(void)
{
}

#define ANY(member) .member = (void *)any
#define NONE(member) .member = (void *)none
static const weft_link_table link_table = {
    .struct_size = sizeof link_table,
    .caps = WEFT_LINK_HOST,
    .probe = probe,
    .create = create,
    NONE(destroy),
    ANY(address),
    ANY(connect),
    ANY(ready),
    NONE(disconnect),
    ANY(send),
    ANY(recv),
    ANY(progress),
    ANY(wait),
    NONE(wake),
    NONE(abort),
};
static const weft_rule rule_table = {sizeof rule_table, WEFT_UNIT_ELEMENT, update};

static const weft_component rule = {
    sizeof rule, 0, "weft.rule/1", "test.wild", "a rule that misbehaves", NULL, &rule_table, NULL};
static const weft_component way = {
    sizeof way, 0,           "weft.link/1", "test.wild", "a transport that misbehaves",
    NULL,       &link_table, NULL};
static const weft_component *const components[] = {&rule, &way, NULL};

static weft_status wild_open(const weft_host *host, void **module)
{
    *module = (void *)host;
    return wild("open");
}

static void wild_close(void *module)
{
    (void)module;
    (void)!wild("close");
}

static const weft_manifest manifest = {
    WEFT_MANIFEST_HEAD,   .id = "org.test.wild",    .version = "1",    .license = "",
    .build = __VERSION__, .components = components, .open = wild_open, .close = wild_close};

const weft_manifest *weft_plugin_entry(void)
{
    (void)!wild("weft_plugin_entry");
    return &manifest;
}
