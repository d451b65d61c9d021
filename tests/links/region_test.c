/* Is registered memory moved as any other, whichever of the two ends has registered it? For
 * transports that register. */
#include "rig.h"
#include <test.h>

#include <stdlib.h>
#include <string.h>

enum { HALF = 6 << 20, AT_ONCE = 60, LIMIT = (1 << 20) + 4097 };

/* One end: memory that is registered and memory that is not; the lower half of each is received
 * into, the upper half sent from. */
typedef struct side {
    uint8_t *memory[2];
    weft_region *region;
    uint64_t used[2]; /* of the halves, in this round */
} side;

typedef struct two {
    node n[2];
    side s[2];
    pair p;
    uint64_t posted[4], seed;
    check_length_set sizes; /* around the values of the options, too */
} two;

typedef struct letter {
    bool from_known, to_known; /* registered at that end */
    uint64_t bytes, seed;
    uint8_t *from, *to;
} letter;

static uint64_t draw(two *t, uint64_t below)
{
    t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
    return (t->seed >> 33) % below;
}

static void begin(two *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    t->seed = seed;
    lengths_begin(&t->sizes, LIMIT);
    for (uint32_t r = 0; r < 2; r++)
        node_init(&t->n[r], r, 2);
}

static void set(two *t, int at, const char *key, const char *value)
{
    for (int r = 0; r < 2 && rig_has_option(key); r++) {
        t->n[r].options[at][0] = key;
        t->n[r].options[at][1] = value;
    }
}

static void up(two *t)
{
    for (int r = 0; r < 2; r++) {
        side *s = &t->s[r];
        assert_int_equal(node_open(&t->n[r]), WEFT_OK);
        const weft_conf *conf = t->n[r].conf;
        for (int i = 0; i < 4 && t->n[r].options[i][0]; i++) {
            const int64_t boundary = conf->integer(conf->ctx, t->n[r].options[i][0]);
            lengths_around(&t->sizes, (uint64_t)boundary, LIMIT);
        }
        for (int i = 0; i < 2; i++)
            s->memory[i] = calloc(2, HALF);
        assert_int_equal(node_register(&t->n[r], s->memory[1], 2 * HALF, -1, &s->region), WEFT_OK);
    }
    t->p = pair_up(&t->n[0], &t->n[1], 3);
}

static void down(two *t)
{
    pair_down(t->p);
    rig_table->deregister_memory(t->s[0].region); /* the other is left to destroy() */
    for (int r = 0; r < 2; r++) {
        node_close(&t->n[r]);
        free(t->s[r].memory[0]);
        free(t->s[r].memory[1]);
    }
}

static void need_registration(void)
{
    if ((rig_table->caps & WEFT_LINK_REGISTER) == 0)
        skip();
}

static letter write_letter(two *t, side *from, side *to)
{
    letter l = {.from_known = draw(t, 4) > 0, .to_known = draw(t, 4) > 0, .seed = draw(t, 1 << 30)};
    l.bytes = lengths_draw(&t->sizes, draw(t, 3) ? LIMIT : 6000, t->seed >> 20);
    if (from->used[1] + l.bytes > HALF || to->used[0] + l.bytes > HALF)
        l.bytes = 0;
    l.from = from->memory[l.from_known] + HALF + from->used[1];
    l.to = to->memory[l.to_known] + to->used[0];
    from->used[1] += l.bytes;
    to->used[0] += l.bytes;
    check_pattern(l.from, l.bytes, l.seed);
    memset(l.to, 0x5a, l.bytes);
    return l;
}

/* Letters in both directions, the four kinds of posting in a random order. */
static void one_round(two *t)
{
    letter l[2][AT_ONCE];
    int next[4] = {0, 0, 0, 0};
    memset(t->s[0].used, 0, sizeof t->s[0].used);
    memset(t->s[1].used, 0, sizeof t->s[1].used);
    for (int i = 0; i < AT_ONCE; i++) {
        l[0][i] = write_letter(t, &t->s[0], &t->s[1]);
        l[1][i] = write_letter(t, &t->s[1], &t->s[0]);
    }
    for (int left = 4 * AT_ONCE; left > 0;) {
        uint64_t what = draw(t, 4), from = what / 2, end = what % 2 ? !from : from;
        weft_conn *c = end ? t->p.b : t->p.a;
        if (next[what] == AT_ONCE)
            continue;
        const letter *one = &l[from][next[what]++];
        weft_region *r = t->s[end].region;
        assert_int_equal(
            what % 2 ? rig_table->recv(c, one->to, one->bytes, one->to_known ? r : NULL, 0)
                     : rig_table->send(c, one->from, one->bytes, one->from_known ? r : NULL, 0),
            WEFT_OK);
        t->posted[2 * end + what % 2]++;
        left--;
    }
    pair_finish(t->p, t->posted);
    for (int i = 0; i < 2 * AT_ONCE; i++) {
        const letter *one = &l[i % 2][i / 2];
        assert_memory_equal(one->to, one->from, one->bytes);
    }
}

static void rounds(two *t, uint64_t n)
{
    up(t);
    for (uint64_t i = 0; i < rig_share(n); i++)
        one_round(t);
    down(t);
}

TEST(test_registered_at_either_end)
{
    two t;
    need_registration();
    begin(&t, 1);
    rounds(&t, 8);
}

/* Many ways at once, little room, nothing in the requests themselves. */
TEST(test_with_other_options)
{
    static const char *const values[][4] = {{"4", "64", "8", "0"},
                                            {"8", "4K", "9", "1K"},
                                            {"3", "100", "32", "64"},
                                            {"1", "128K", "8", "128"},
                                            {"2", "65", "1024", "63"}};
    need_registration();
    for (uint64_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        two t;
        begin(&t, 100 + i);
        set(&t, 0, "qps", values[i][0]);
        set(&t, 1, "eager", values[i][1]);
        set(&t, 2, "slots", values[i][2]);
        set(&t, 3, "inline", values[i][3]);
        rounds(&t, 3);
    }
}

/* The ends need not be set alike. */
TEST(test_ends_with_different_options)
{
    two t;
    need_registration();
    begin(&t, 7);
    set(&t, 0, "qps", "4");
    set(&t, 1, "eager", "1K");
    set(&t, 2, "slots", "16");
    for (int i = 0; i < 3; i++)
        t.n[1].options[i][0] = NULL;
    rounds(&t, 3);
}

int main(int argc, char **argv)
{
    return rig_main(argc, argv);
}
