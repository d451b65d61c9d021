/* tests/abi/bad.c: one plugin, and every way of being a bad one.
 *
 * Built with -DBAD=GOOD it is lawful: two update rules that do nothing, an op, and a component that
 * is for another program. -DBAD=MAGIC and so on break one rule each; refusals_test.c has the
 * sentence with which the host refuses it. */
#include "bad.h"

#include <string.h>
#include <weft/link.h>
#include <weft/op.h>
#include <weft/optim.h>

enum {
    GOOD,
    RETURNS_NULL,
    MAGIC,
    MAJOR,
    MINOR,
    MINOR_NEWER,
    TAG,
    SIZE,
    FLAGS,
    ID,
    NO_OPEN,
    NO_COMPONENTS,
    EMPTY,
    COMPONENT_SIZE,
    NAME_SLASH,
    NAME_DOTS,
    NAME_LONG,
    COMPONENT_FLAGS,
    IFACE_GARBAGE,
    IFACE_BARE,
    IFACE_NEWER,
    NO_HELP,
    OPTION_KEY,
    OPTION_DEFAULT,
    OPTION_TWICE,
    NO_TABLE,
    SHORT_TABLE,
    GROWN_TABLE,
    GROWN_ZERO,
    HUGE_TABLE,
    MISSING_SLOT,
    PROMISED_SLOT,
    TWICE,
    OP_BARE,
    OPEN_FAILS,
    OPEN_SILENT,
    LEAKS
};
#define PICK(which, odd, usual) (BAD == (which) ? (odd) : (usual))

static weft_status update(void *module, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)module, (void)conf, (void)b, (void)u;
    return WEFT_OK;
}

static weft_status infer(const weft_op_self *self, const weft_attr *attrs, uint32_t nattr,
                         const weft_shape *in, uint32_t nin, weft_shape *out, uint32_t *nout)
{
    (void)self->b, (void)attrs, (void)nattr, (void)nin;
    out[0] = in[0];
    *nout = 1;
    return WEFT_OK;
}

/* --- a link with every mandatory member, which promises a mapping and has none --- */

static weft_status link_any(void)
{
    return WEFT_UNSUPPORTED;
}

static void link_none(void)
{
}

#define ANY(member) .member = (void *)link_any
#define NONE(member) .member = (void *)link_none
static const weft_link_table promising = {
    .struct_size = sizeof(weft_link_table),
    .caps = WEFT_LINK_HOST | WEFT_LINK_MAP,
    ANY(probe),
    ANY(create),
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
    ANY(register_memory),
    NONE(deregister_memory),
    ANY(key),
};

/* --- the rules and the op --- */

static const weft_option first = {sizeof(weft_option),
                                  WEFT_OPT_REAL,
                                  PICK(OPTION_KEY, "Momentum", "momentum"),
                                  PICK(OPTION_DEFAULT, "fast", "0.9"),
                                  "weight of the past",
                                  NULL,
                                  0,
                                  1};
static const weft_option second = {sizeof(weft_option),
                                   WEFT_OPT_BOOL,
                                   PICK(OPTION_TWICE, "momentum", "nesterov"),
                                   "off",
                                   "look ahead",
                                   NULL,
                                   0,
                                   0};

static const struct grown {
    weft_rule rule;
    const void *later; /* a member that this host does not know */
} table = {
    {PICK(SHORT_TABLE, 8,
          PICK(HUGE_TABLE, 0xffffffffu,
               PICK(GROWN_TABLE, sizeof(struct grown),
                    PICK(GROWN_ZERO, sizeof(struct grown), sizeof(weft_rule))))),
     WEFT_UNIT_ELEMENT, PICK(MISSING_SLOT, NULL, update)},
    PICK(GROWN_TABLE, &table, NULL),
};
static const weft_op twice = {.struct_size = sizeof(weft_op), .infer = infer};

static const weft_component rule = {
    PICK(COMPONENT_SIZE, 40, sizeof(weft_component)),
    PICK(COMPONENT_FLAGS, 4, 0),
    PICK(IFACE_GARBAGE, "weft.rule/1x",
         PICK(IFACE_BARE, "weft.rule", PICK(IFACE_NEWER, "weft.rule/2", "weft.rule/1"))),
    PICK(NAME_SLASH, "../good",
         PICK(NAME_DOTS, "go..od",
              PICK(NAME_LONG, "a.name.that.is.longer.than.sixty.three.bytes.and.then.even.longer",
                   "good"))),
    PICK(NO_HELP, NULL, "does nothing"),
    (const weft_option *const[]){&first, &second, NULL},
    PICK(NO_TABLE, NULL, &table),
    NULL,
};
static const weft_component rule_too = {
    sizeof(weft_component), 0,    "weft.rule/1", PICK(TWICE, "good", "good_too"),
    "does nothing, too",    NULL, &table.rule,   NULL};
static const weft_component op = {sizeof(weft_component),
                                  0,
                                  "weft.op/1",
                                  PICK(OP_BARE, "twice", "acme.twice"),
                                  "the same",
                                  NULL,
                                  &twice,
                                  NULL};
static const weft_component foreign = {
    sizeof(weft_component), 0, "org.acme.rail/3", "rail", "for somebody else", NULL, "?", NULL};
static const weft_component mapper = {
    sizeof(weft_component), 0, "weft.link/1", "mapper", "promises", NULL, &promising, NULL};

/* --- the module --- */

static void *volatile left_behind; /* in sight of a leak checker, so that only the host complains */

static weft_status bad_open(const weft_host *host, void **module)
{
    if (BAD == OPEN_SILENT)
        return WEFT_IO;
    if (BAD == OPEN_FAILS) {
        weft_status st = host->fail(host->ctx, WEFT_ABSENT, "there is no\nsuch device");
        return host->fail(host->ctx, st, "opening for the test");
    }
    bad_module *m = host->alloc(host->ctx, sizeof *m, 0);
    if (!m)
        return WEFT_NO_MEMORY;
    m->host = host;
    m->tls = host->iface(host->ctx, "weft.host.tls/1");
    m->block = host->alloc(host->ctx, 100, 4096);
    host->log(host->ctx, WEFT_LOG_WARN, "open\nand ready");
    *module = m;
    return WEFT_OK;
}

static void bad_close(void *module)
{
    bad_module *m = module;
    const weft_host *host = m->host;
    left_behind = m->block;
    if (BAD != LEAKS)
        host->free(host->ctx, m->block);
    host->free(host->ctx, m);
    host->free(host->ctx, NULL);
}

static const weft_manifest manifest = {
    PICK(MAGIC, 0x12345678u, WEFT_MAGIC),
    PICK(SIZE, 72, sizeof(weft_manifest)),
    PICK(MAJOR, 1, WEFT_ABI_MAJOR),
    PICK(MINOR, WEFT_ABI_LEAST_MINOR - 1, PICK(MINOR_NEWER, WEFT_ABI_MINOR + 1, WEFT_ABI_MINOR)),
    PICK(FLAGS, 2, 0),
    PICK(TAG, 4, WEFT_ABI_TAG),
    PICK(ID, "Weft Test", PICK(OP_BARE, "org.acme.test", "weft.test")),
    "0",
    "",
    "",
    PICK(NO_COMPONENTS, NULL,
         PICK(EMPTY, ((const weft_component *const[]){NULL}),
              PICK(PROMISED_SLOT, ((const weft_component *const[]){&mapper, NULL}),
                   ((const weft_component *const[]){&rule, &rule_too, &op, &foreign, NULL})))),
    PICK(NO_OPEN, NULL, bad_open),
    bad_close,
};

const weft_manifest *weft_plugin_entry(void)
{
    return PICK(RETURNS_NULL, NULL, &manifest);
}
