/* broken.c: a wrapper of acme.hostcoll that breaks a rule of weft/coll.h, as the option `how` says,
 * once it has counted five groups: what does the core make of it? */
#include <weft/coll.h>
#include <weft/host.h>

#include <string.h>
#include <time.h>

struct weft_comm {
    weft_comm *inner;
    uint64_t last;
};

static const weft_host *host;
static weft_component_ref in = {.struct_size = sizeof in};
static const weft_coll_table *table;
static const char *option = "not"; /* the value of how */

static weft_status b_probe(void *module, const weft_conf *conf, uint32_t caps, int32_t *score)
{
    const weft_host_component *open = host->iface(host->ctx, "weft.host.component/1");
    const weft_component_args args = {sizeof args, 0, "weft.coll/1", "acme.hostcoll"};
    (void)module;
    option = conf->text(conf->ctx, "how");
    weft_status st = open->open(open->ctx, &args, &in);
    table = in.table;
    if (st == WEFT_OK)
        st = table->probe(in.module, in.conf, caps, score);
    const int32_t own = (int32_t)conf->integer(conf->ctx, "score");
    *score = st == WEFT_OK && own ? own : *score;
    return st;
}

static weft_status b_id(void *module, const weft_conf *conf, void *out, uint64_t *bytes)
{
    (void)module, (void)conf;
    return table->id(in.module, in.conf, out, bytes);
}

static weft_status b_open(void *module, const weft_coll_args *args, weft_comm **out)
{
    weft_status st = WEFT_OK;
    weft_coll_args own = *args;
    weft_comm *c = weft_new(host, sizeof *c, &st);
    (void)module;
    if (st != WEFT_OK)
        return st;
    own.conf = in.conf;
    *out = c;
    return table->open(in.module, &own, &c->inner);
}

static weft_status b_ready(weft_comm *c)
{
    return table->ready(c->inner);
}

static void b_close(weft_comm *c)
{
    if (!c)
        return;
    table->close(c->inner);
    host->free(host->ctx, c);
}

static weft_status b_begin(void *module, uint32_t flags)
{
    (void)module;
    return table->begin(in.module, flags);
}

static weft_status b_end(void *module, uint32_t flags)
{
    (void)module;
    return table->end(in.module, flags);
}

static weft_status b_call(weft_comm *c, const weft_coll_call *call)
{
    if (!strcmp(option, "refuse") && c->last >= 5)
        return host->fail(host->ctx, WEFT_UNSUPPORTED, "it has no such collective");
    return table->call(c->inner, call);
}

static weft_status b_supports(void *module, uint32_t kind, uint32_t redop, uint32_t dtype)
{
    (void)module;
    if (!strcmp(option, "nosum") && redop == WEFT_SUM)
        return host->fail(host->ctx, WEFT_UNSUPPORTED, "it does not add");
    return table->supports(in.module, kind, redop, dtype);
}

static weft_status b_health(weft_comm *c)
{
    if (!strcmp(option, "ill") && c->last >= 5)
        return host->fail(host->ctx, WEFT_IO, "the card has gone up in smoke");
    return table->health(c->inner);
}

static void sleep_long(void)
{
    nanosleep(&(struct timespec){1000, 0}, NULL);
}

static void b_abort(weft_comm *c)
{
    if (!strcmp(option, "hang"))
        sleep_long();
    table->abort(c->inner);
}

static weft_status b_test(weft_comm *c, uint32_t flags, uint64_t *done)
{
    weft_status st = table->test(c->inner, flags, done);
    if (st != WEFT_OK || *done < 5)
        return st;
    c->last = *done;
    if (!strcmp(option, "never") || !strcmp(option, "hang") || !strcmp(option, "ill"))
        *done = 4;
    if (!strcmp(option, "back"))
        *done = 2;
    if (!strcmp(option, "beyond"))
        *done = 1000;
    if (!strcmp(option, "fail"))
        return host->fail(host->ctx, WEFT_IO, "the cable is out");
    if (!strcmp(option, "stuck"))
        sleep_long();
    return WEFT_OK;
}

static const weft_coll_table broken = {.struct_size = sizeof broken,
                                       .channels = 1,
                                       .caps = WEFT_COLL_HOST,
                                       .probe = b_probe,
                                       .id = b_id,
                                       .open = b_open,
                                       .ready = b_ready,
                                       .close = b_close,
                                       .begin = b_begin,
                                       .end = b_end,
                                       .call = b_call,
                                       .health = b_health,
                                       .abort = b_abort,
                                       .test = b_test,
                                       .supports = b_supports};
static const weft_option how = {
    sizeof how, WEFT_OPT_STRING, "how", "not", "which rule it breaks", NULL, 0, 0};
static const weft_option points = {
    sizeof points, WEFT_OPT_INT, "score", "0", "of its probe; 0: acme.hostcoll's", NULL, 0, 1000};
static const weft_option *const options[] = {&how, &points, NULL};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.coll/1",
                                         .name = "brokencoll",
                                         .help = "breaks a rule of weft/coll.h",
                                         .options = options,
                                         .table = &broken};
static const weft_component *const components[] = {&component, NULL};

static weft_status module_open(const weft_host *h, void **module)
{
    host = h;
    *module = (void *)(uintptr_t)h;
    return WEFT_OK;
}

WEFT_PLUGIN("weft.test.brokencoll", "0.1.0", "", components, module_open, NULL);
