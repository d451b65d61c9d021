/* tests/check/bad/any.c: one plugin, and ways of failing the checks that concern every plugin.
 *
 * Built with -DBAD=GOOD it passes all. Each name of any.expected breaks one rule, so that the check
 * of that number fails and none with a lower number. */
#include "faults.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <weft/coll.h>
#include <weft/expr.h>
#include <weft/optim.h>

#define PICK(which, odd, usual) (BAD == (which) ? (odd) : (usual))

/* --- the object --- */

static bool is_open;

__attribute__((visibility("default"))) int a_second_symbol(void);
int a_second_symbol(void) /* exported where the export map is left out */
{
    return 2;
}

extern int weft_of_the_program(void);

static int many(void)
{
    static _Thread_local char bytes[1100] __attribute__((tls_model("initial-exec")));
    volatile char *at = bytes;
    return at[BAD % 1100];
}

static void make_daemon(void)
{
    static bool made;
    if (made)
        return;
    made = true;
    const pid_t first = fork();
    if (!first) {
        if (setsid() > 0 && !fork())
            sleep(60);
        _exit(0);
    }
    waitpid(first, NULL, 0);
}

__attribute__((constructor)) static void begin(void)
{
    if (BAD == DAEMON_LOADED)
        make_daemon();
    if (BAD == CONSTRUCTOR)
        setenv("WEFT_BAD", "1", 1);
    if (BAD == SLOW_LOAD)
        nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    if (BAD == STATIC_TLS && many())
        abort();
    if (BAD == WANTS_SYMBOL)
        weft_of_the_program();
}

__attribute__((destructor)) static void end(void)
{
    if (BAD == DESTRUCTOR || (BAD == EXIT_WHILE_OPEN && is_open))
        abort();
}

/* An address among the instructions, which the loader has to write there. */
static const int target = 1;
__attribute__((used)) static void relocated(void)
{
    if (BAD == TEXT_RELOCATIONS)
        __asm__ volatile("1: .quad %c0" : : "i"(&target));
}

/* --- the tables --- */

static const weft_host *last_host; /* of the module that was opened last */
static _Thread_local bool opened_here;

static void *sleep_forever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* What a call of the bad plugin does besides its work. */
static void misbehave(const weft_host *host, const weft_conf *conf)
{
    pthread_t thread;
    if (BAD == GLOBAL_HOST)
        last_host->log(last_host->ctx, WEFT_LOG_DEBUG, "an update");
    if (BAD == LEAKS_THREAD && !pthread_create(&thread, NULL, sleep_forever, NULL))
        pthread_detach(thread);
    if (BAD == DAEMON_CALLED)
        make_daemon();
    if (BAD == PRINTS)
        puts("an update");
    if (BAD == CHANGES_UMASK)
        umask(077);
    if (BAD == UNDECLARED)
        (void)conf->real(conf->ctx, "beta");
    if (BAD == LOGS_TWO_LINES)
        host->log(host->ctx, WEFT_LOG_DEBUG, "an\nupdate");
}

/* param -= lr * grad, and times 1 */
static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    static unsigned calls;
    weft_expr f = {b,
                   weft_check_args(*(const weft_host **)module, u, sizeof *u, WEFT_PARAM_MATRIX)};
    misbehave(*(const weft_host **)module, conf);
    const double one = BAD == IMPURE         ? ++calls
                       : BAD == THREAD_LOCAL ? 2 - opened_here
                                             : conf->real(conf->ctx, "momentum") + 0.1;
    const weft_tensor step = weft_op2(&f, "mul", u->grad, weft_number(&f, one));
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, weft_op2(&f, "mul", step, u->lr)));
    return f.st;
}

static weft_status any(void)
{
    return WEFT_UNSUPPORTED;
}

#define ANY(member) .member = (void *)any
static const weft_coll_table coll_table = {
    .struct_size = sizeof coll_table,
    .caps = WEFT_COLL_STREAM,
    ANY(probe),
    ANY(id),
    ANY(open),
    ANY(ready),
    ANY(close),
    ANY(begin),
    ANY(end),
    ANY(call),
    ANY(health),
    ANY(abort),
    ANY(test),
};

static const weft_option momentum = {.struct_size = sizeof momentum,
                                     .type = WEFT_OPT_REAL,
                                     .key = PICK(KEY, "lr", "momentum"),
                                     .dflt = PICK(DEFAULT, "2", "0.9"),
                                     .help = "weight of the past",
                                     .min = 0,
                                     .max = 1};
static const weft_option *const options[] = {&momentum, NULL};

static const weft_rule rule_table = {sizeof rule_table, WEFT_UNIT_ELEMENT,
                                     PICK(MEMBER, NULL, update)};
static const weft_component rule = {
    .struct_size = PICK(SIZE, 40, sizeof rule),
    .flags = PICK(FLAGS, 4, 0),
    .iface = PICK(INTERFACE, "weft.rule/9", "weft.rule/1"),
    .name = PICK(NO_DOT, "bad", "acme.bad"),
    .help = "changes nothing",
    .options = options,
    .table = &rule_table,
};
static const weft_component coll = {
    .struct_size = sizeof coll,
    .iface = "weft.coll/1",
    .name = "acme.coll",
    .help = "does nothing",
    .table = &coll_table,
};

/* Not constant: WRITES changes it. */
static const weft_component *components[] = {
    &rule, PICK(CAPABILITY, &coll, PICK(TWICE, &rule, NULL)), NULL};

/* --- the module --- */

static void hang(void)
{
    for (;;)
        pause();
}

/* What open() of the bad plugin does besides its work. */
static weft_status open_badly(const weft_host *host)
{
    static weft_component other;
    static bool forks;
    if (BAD == WRITES) {
        other = rule;
        other.help = "does nothing";
        components[0] = &other;
    }
    if (BAD == READS_BEHIND && ((const volatile char *)host)[sizeof *host] == 42)
        return WEFT_OK;
    if (BAD == EXACT_HOST && host->struct_size != sizeof *host)
        return (host->fail)(host->ctx, WEFT_UNSUPPORTED, "this host is another one");
    if (BAD == DAEMON_OPENED)
        make_daemon();
    if (BAD == LEAKS_DESCRIPTOR && dup(STDIN_FILENO) < 0)
        return WEFT_OK;
    if (BAD == FORK_HANGS && !forks)
        forks = !pthread_atfork(NULL, NULL, hang);
    if (BAD == STALE_RECORD)
        return (host->fail)(host->ctx, WEFT_IO, "this was tried first") == WEFT_IO ? WEFT_OK
                                                                                   : WEFT_IO;
    return WEFT_OK;
}

static weft_status bad_open(const weft_host *host, void **module)
{
    weft_status st = open_badly(host);
    is_open = opened_here = true;
    last_host = host;
    const weft_host **m = BAD == SILENT_FAILURE ? host->alloc(host->ctx, sizeof *m, 0)
                                                : weft_new(host, sizeof *m, &st);
    if (BAD == HALF_OBJECT)
        *module = m;
    if (!m)
        return st == WEFT_OK ? WEFT_NO_MEMORY : st;
    void *more = weft_new(host, 100, &st);
    if (!more && BAD != LEAKS_ON_FAILURE)
        host->free(host->ctx, m);
    if (!more)
        return st;
    host->free(host->ctx, more);
    *m = host;
    *module = m;
    return WEFT_OK;
}

static void bad_close(void *module)
{
    static int foreign;
    const weft_host **m = module;
    is_open = false;
    if (!m)
        return;
    if (BAD == FOREIGN_MEMORY)
        (*m)->free((*m)->ctx, &foreign);
    (*m)->free((*m)->ctx, m);
}

#define MANIFEST                                                                                   \
    {                                                                                              \
        PICK(MAGIC, 0x12345678u, WEFT_MAGIC), sizeof(weft_manifest), WEFT_ABI_MAJOR,               \
            WEFT_ABI_MINOR, 0, WEFT_ABI_TAG, "org.acme.bad", PICK(LINES, "1\n", "1"), "MIT",       \
            __VERSION__, components, bad_open, bad_close                                           \
    }
static const weft_manifest manifests[2] = {MANIFEST, MANIFEST};

static const weft_manifest *entry(void)
{
    static unsigned calls;
    return &manifests[BAD == BUILDS ? calls++ & 1 : 0];
}

#ifndef BAD_NO_ENTRY
const weft_manifest *weft_plugin_entry(void)
{
    return entry();
}
#else
__attribute__((used)) static const weft_manifest *(*const kept)(void) = entry;
#endif
