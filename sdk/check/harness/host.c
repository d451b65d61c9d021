/* check/harness/host.c: a host table of the checker's own. See harness.h.
 *
 * Blocks are in a list of their host, so that free() finds memory of another host and memory that
 * no host gave; that is a linear search, and a module has few blocks. Freed memory is filled with
 * 0xdd. */
#include "base/err.h"
#include "check/harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_block {
    check_block *next;
    void *at;
    uint64_t bytes;
};

static void misuse(check_host *h, check_misuse sort, const char *what)
{
    if (!h->misuse[sort][0])
        snprintf(h->misuse[sort], CHECK_LINE, "%s", what);
}

_Atomic(const char *) check_step;

static void note_step(check_host *h, const char *what)
{
    const char *member = atomic_load(&check_step);
    char text[CHECK_LINE];
    if (!member)
        return;
    snprintf(text, sizeof text, "%s was called in %s()", what, member);
    misuse(h, CHECK_MISUSE_STEP, text);
}

void check_host_step(check_host *h, const char *what)
{
    if (!atomic_load(&check_step))
        return;
    pthread_mutex_lock(&h->lock);
    note_step(h, what);
    pthread_mutex_unlock(&h->lock);
}

static void *host_alloc(void *ctx, uint64_t bytes, uint64_t align)
{
    check_host *h = ctx;
    void *p = NULL;
    align = align < 16 ? 16 : align;
    pthread_mutex_lock(&h->lock);
    h->allocs++;
    note_step(h, "alloc() of the host table");
    const bool fails = h->fail_at && !--h->fail_at;
    if (align & (align - 1))
        misuse(h, CHECK_MISUSE_MEMORY,
               "alloc() was called with an alignment that is no power of two");
    else if (!fails && bytes <= (uint64_t)1 << 40 &&
             !posix_memalign(&p, align, bytes ? bytes : 1)) {
        memset(p, 0, bytes ? bytes : 1);
        check_block *b = mem_alloc(sizeof *b);
        *b = (check_block){h->blocks, p, bytes};
        h->blocks = b;
        h->live++;
    }
    pthread_mutex_unlock(&h->lock);
    return p;
}

static void host_free(void *ctx, void *p)
{
    check_host *h = ctx;
    if (!p)
        return;
    pthread_mutex_lock(&h->lock);
    check_block **at = &h->blocks;
    while (*at && (*at)->at != p)
        at = &(*at)->next;
    check_block *b = *at;
    if (b) {
        *at = b->next;
        h->live--;
        memset(p, 0xdd, b->bytes);
        free(p);
        free(b);
    } else {
        misuse(h, CHECK_MISUSE_MEMORY,
               "free() was called with memory that alloc() of the same table did not give, or "
               "twice");
    }
    pthread_mutex_unlock(&h->lock);
}

static int32_t host_log_enabled(void *ctx, int32_t level)
{
    (void)ctx;
    return level <= WEFT_LOG_DEBUG;
}

static void host_log(void *ctx, int32_t level, const char *text)
{
    check_host *h = ctx;
    pthread_mutex_lock(&h->lock);
    if (!text)
        misuse(h, CHECK_MISUSE_LOG, "log() was called with NULL");
    else if (level < WEFT_LOG_ERROR || level > WEFT_LOG_DEBUG)
        misuse(h, CHECK_MISUSE_LOG,
               "log() was called with a level that weft/plugin.h does not define");
    else if (h->lines < CHECK_LINES)
        snprintf(h->log[h->lines++], CHECK_LINE, "%s", text);
    pthread_mutex_unlock(&h->lock);
}

static weft_status host_fail(void *ctx, weft_status code, const char *text)
{
    check_host *h = ctx;
    pthread_mutex_lock(&h->lock);
    h->records++;
    if (!text || !*text)
        misuse(h, CHECK_MISUSE_FAIL, "fail() was called without a text");
    else if (code == WEFT_OK)
        misuse(h, CHECK_MISUSE_FAIL, "fail() was called with a status that is no failure");
    else if (!h->why[0] && code != WEFT_BUSY) { /* ready() may say why it waits */
        snprintf(h->why, sizeof h->why, "%s", text);
        h->code = code;
    }
    pthread_mutex_unlock(&h->lock);
    return code;
}

static const void *host_iface(void *ctx, const char *id)
{
    const check_host *h = ctx;
    if (!id || h->bare)
        return NULL;
    return !strcmp(id, "weft.host.tls/1")         ? (const void *)&h->tls
           : !strcmp(id, "weft.host.component/1") ? (const void *)&h->components
           : !strcmp(id, "weft.host.kv/1")        ? (const void *)h->kv
                                                  : NULL;
}

void check_host_begin(check_host *h, const char *name)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->name = name;
    h->own = (weft_host){.struct_size = sizeof h->own,
                         .abi_major = WEFT_ABI_MAJOR,
                         .abi_minor = WEFT_ABI_MINOR,
                         .ctx = h,
                         .alloc = host_alloc,
                         .free = host_free,
                         .log_enabled = host_log_enabled,
                         .log = host_log,
                         .fail = host_fail,
                         .iface = host_iface};
    h->table = &h->own;
    check_host_tls(h, 1);
    check_host_components(h);
}

void check_host_end(check_host *h)
{
    while (h->blocks) {
        check_block *b = h->blocks;
        h->blocks = b->next;
        free(b->at);
        free(b);
    }
    for (uint32_t i = 0; i < h->configs.n; i++)
        config_destroy(h->configs.at[i]);
    free(h->configs.at);
    for (uint32_t i = 0; i < h->confs.n; i++)
        free(h->confs.at[i]);
    free(h->confs.at);
    pthread_mutex_destroy(&h->lock);
}

void check_host_clear(check_host *h)
{
    h->code = WEFT_OK;
    h->why[0] = 0;
}

/* --- options --- */

typedef struct asked { /* a conf that also notes undeclared keys */
    weft_conf conf;
    check_host *h;
    const host_component *c;
    const weft_conf *real;
} asked;

static bool declared(asked *a, const char *key)
{
    for (const weft_option *const *o = a->c->options; key && *o; o++)
        if (!strcmp((*o)->key, key))
            return true;
    char text[CHECK_LINE];
    snprintf(text, sizeof text,
             "component '%s' asks for the option '%s', which it does not declare", a->c->name,
             key ? key : "NULL");
    misuse(a->h, CHECK_MISUSE_KEY, text);
    return false;
}

static const char *ask_text(void *ctx, const char *key)
{
    asked *a = ctx;
    return declared(a, key) ? a->real->text(a->real->ctx, key) : NULL;
}

static int64_t ask_integer(void *ctx, const char *key)
{
    asked *a = ctx;
    return declared(a, key) ? a->real->integer(a->real->ctx, key) : 0;
}

static double ask_real(void *ctx, const char *key)
{
    asked *a = ctx;
    return declared(a, key) ? a->real->real(a->real->ctx, key) : 0;
}

static uint32_t ask_reals(void *ctx, const char *key, double *out, uint32_t capacity)
{
    asked *a = ctx;
    return declared(a, key) ? a->real->reals(a->real->ctx, key, out, capacity) : 0;
}

/* A lawful value of an option that the user has to give. */
static void make_up(const weft_option *o, char *out, size_t size)
{
    const bool bounds = o->min != 0 || o->max != 0;
    if (o->type == WEFT_OPT_CHOICE)
        snprintf(out, size, "%.*s", (int)strcspn(o->choices, "|"), o->choices);
    else if (o->type == WEFT_OPT_STRING)
        snprintf(out, size, "text");
    else if (o->type == WEFT_OPT_BOOL)
        snprintf(out, size, "on");
    else
        snprintf(out, size, "%.17g", bounds ? o->min : 1.0);
}

/* Of --set. */
static const char *const *given;
static uint32_t ngiven;

void check_options_set(const char *const *set, uint32_t n)
{
    given = set;
    ngiven = n;
}

const weft_option *check_option(const host_component *c, const char *key)
{
    for (const weft_option *const *o = c->options; *o; o++)
        if (!strcmp((*o)->key, key))
            return *o;
    return NULL;
}

const char *check_options_value(const char *key)
{
    const size_t n = strlen(key);
    for (uint32_t i = ngiven; i-- > 0;) /* the last one counts, as on every command line */
        if (!strncmp(given[i], key, n) && given[i][n] == '=')
            return given[i] + n + 1;
    return NULL;
}

void check_options_declared(const check_run *r)
{
    for (uint32_t i = 0; i < ngiven; i++) {
        char key[64] = "";
        bool found = false;
        strncat(key, given[i], strcspn(given[i], "=") < 63 ? strcspn(given[i], "=") : 63);
        for (uint32_t k = 0; k < r->n; k++)
            found = found || check_option(r->components[k], key);
        if (!found)
            check_not_applicable("--set %s: no component of the file has the option '%s'", given[i],
                                 key);
    }
}

/* The value that the check or the user gives an option; NULL: none. */
static const char *set_value(const check_host *h, const host_component *c, const char *key)
{
    if (h->set_of == c && !strcmp(h->set_key, key))
        return h->set_value;
    if (h->set_of == c && h->also_key && !strcmp(h->also_key, key))
        return h->also_value;
    return check_options_value(key);
}

/* The conf of a later minor: it has more functions. As long as the process. */
static const weft_conf *longer(const weft_conf *from, weft_status (*later)(void))
{
    struct {
        weft_conf conf;
        weft_status (*later[8])(void);
    } *grown = mem_alloc(sizeof *grown);
    grown->conf = *from;
    grown->conf.struct_size = sizeof *grown;
    for (size_t i = 0; i < sizeof grown->later / sizeof *grown->later; i++)
        grown->later[i] = later;
    return &grown->conf;
}

const weft_conf *check_conf(check_host *h, const host_component *c)
{
    char text[16384] = "[check]\n";
    config *cfg;
    for (const weft_option *const *o = c->options; *o; o++) {
        char value[4200];
        const size_t n = strlen(text);
        const char *set = set_value(h, c, (*o)->key);
        if ((*o)->dflt && !set)
            continue;
        if (set)
            snprintf(value, sizeof value, "%s", set);
        else
            make_up(*o, value, sizeof value);
        snprintf(text + n, sizeof text - n, "%s = %s\n", (*o)->key, value);
    }
    weft_status st = config_load_text(text, "the check", &cfg);
    if (st != WEFT_OK)
        check_fail("no values for the options of '%s': %s", c->name, err_text());
    pthread_mutex_lock(&h->lock);
    *vec_push(&h->configs) = cfg;
    pthread_mutex_unlock(&h->lock);
    st = config_add(cfg, "check", c->name, c->options);
    if (st == WEFT_OK)
        st = config_check_section(cfg, "check");
    if (st != WEFT_OK)
        check_fail("the defaults of '%s' are refused: %s", c->name, err_text());
    asked *a = mem_alloc(sizeof *a);
    pthread_mutex_lock(&h->lock);
    *vec_push(&h->confs) = a;
    pthread_mutex_unlock(&h->lock);
    a->h = h;
    a->c = c;
    a->real = config_conf(cfg, "check", c->own);
    a->conf = *a->real;
    a->conf.ctx = a;
    a->conf.text = ask_text;
    a->conf.integer = ask_integer;
    a->conf.real = ask_real;
    a->conf.reals = ask_reals;
    return h->later    ? longer(&a->conf, h->later)
           : h->guards ? check_guard(&a->conf, sizeof a->conf)
                       : &a->conf;
}
