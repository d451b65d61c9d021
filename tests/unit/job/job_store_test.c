/* The store's bookkeeping, frame by frame and without a network: who is answered, when, with what.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include "job/decide/cause.h"
#include "job/store/store.h"
#include "job/wire/wire.h"

#include "replies.h"

#include <cmocka.h> /* last: it has a macro called fail */

static job_store *fresh(void)
{
    memset(reply, 0, sizeof reply);
    return job_store_open(RANKS, on_reply, reply);
}

TEST(put_and_get)
{
    job_store *s = fresh();
    job_store_put(s, 1, "a", "one", 3);
    assert_int_equal(reply[1].times, 1);
    assert_int_equal(reply[1].status, WEFT_OK);
    job_store_get(s, 2, "a", 10);
    assert_int_equal(reply[2].n, 3);
    assert_string_equal(reply[2].bytes, "one");
    job_store_put(s, 3, "a", "other", 5);
    job_store_get(s, 2, "a", 10);
    assert_string_equal(reply[2].bytes, "other");
    job_store_put(s, 0, "", NULL, 0); /* the empty key, no bytes */
    job_store_get(s, 0, "", 0);
    assert_int_equal(reply[0].times, 2);
    assert_int_equal(reply[0].n, 0);
    job_store_close(s);
}

TEST(get_waits)
{
    job_store *s = fresh();
    job_store_get(s, 0, "k", 100);
    job_store_get(s, 1, "k", 50);
    job_store_get(s, 2, "other", 100);
    job_store_tick(s, 49);
    assert_int_equal(reply[0].times + reply[1].times + reply[2].times, 0);
    job_store_tick(s, 50);
    assert_int_equal(reply[1].status, WEFT_PEER);
    assert_non_null(strstr(reply[1].bytes, "'k'"));
    job_store_put(s, 3, "k", "v", 1);
    assert_int_equal(reply[0].status, WEFT_OK);
    assert_string_equal(reply[0].bytes, "v");
    assert_int_equal(reply[1].times, 1); /* answered once, and not again */
    assert_int_equal(reply[2].times, 0);
    job_store_tick(s, 1000);
    assert_int_equal(reply[0].times, 1);
    assert_int_equal(reply[2].times, 1);
    job_store_close(s);
}

TEST(limits)
{
    job_store *s = fresh();
    char *big = calloc(1, WIRE_VALUE_MAX);
    int stored = 0;
    for (; stored < 1000; stored++) {
        char key[16];
        snprintf(key, sizeof key, "%d", stored);
        job_store_put(s, 0, key, big, WIRE_VALUE_MAX);
        if (reply[0].status != WEFT_OK)
            break;
    }
    assert_int_equal(stored, STORE_BYTES_MAX / WIRE_VALUE_MAX - 1); /* keys take room too */
    assert_int_equal(reply[0].status, WEFT_NO_MEMORY);
    job_store_put(s, 0, "0", "x", 1); /* replacing makes room */
    assert_int_equal(reply[0].status, WEFT_OK);
    job_store_put(s, 0, "new", big, WIRE_VALUE_MAX / 2);
    assert_int_equal(reply[0].status, WEFT_OK);
    free(big);
    job_store_close(s);
}

TEST(keys_of_frames)
{
    char key[WIRE_KEY_MAX + 1];
    const uint8_t *value;
    uint32_t n;
    uint8_t body[300] = {3, 0, 'k', 'e', 'y', 'v'};
    job_wire_frame f = {.body = body};
    for (f.bytes = 0; f.bytes < 5; f.bytes++)
        assert_false(job_wire_key(&f, key, &value, &n));
    assert_true(job_wire_key(&f, key, &value, &n));
    assert_string_equal(key, "key");
    assert_int_equal(n, 0);
    f.bytes = 6;
    assert_true(job_wire_key(&f, key, &value, &n));
    assert_int_equal(n, 1);
    assert_int_equal(*value, 'v');
    body[3] = 0; /* a zero inside a key */
    assert_false(job_wire_key(&f, key, &value, &n));
    memset(body + 2, 'k', 298);
    f.bytes = 300;
    body[0] = 200;
    assert_true(job_wire_key(&f, key, &value, &n));
    assert_int_equal(strlen(key), 200);
    body[0] = 201;
    assert_false(job_wire_key(&f, key, &value, &n));
    body[0] = body[1] = 255;
    assert_false(job_wire_key(&f, key, &value, &n));
}

TEST(hello_frames)
{
    job_wire_hello h = {.rank = 3,
                        .ranks = 0x12345678,
                        .process = 1ull << 63 | 5,
                        .launch = 6,
                        .attempt = 9,
                        .host = "node7"},
                   got;
    uint8_t body[HELLO_BYTES];
    job_wire_version(h.version);
    job_wire_pack_hello(&h, body);
    job_wire_frame f = {.type = WIRE_HELLO, .bytes = sizeof body, .body = body};
    assert_true(job_wire_unpack_hello(&f, &got));
    assert_memory_equal(&h, &got, sizeof h);
    f.bytes--;
    assert_false(job_wire_unpack_hello(&f, &got));
    f.bytes++;
    f.type = WIRE_PUT;
    assert_false(job_wire_unpack_hello(&f, &got));
    f.type = WIRE_HELLO;
    memset(body + 32, 0x1b, WIRE_VERSION + HOST_BYTES); /* no end, and escapes for a terminal */
    assert_true(job_wire_unpack_hello(&f, &got));
    assert_int_equal(strlen(got.version), WIRE_VERSION - 1);
    assert_null(strchr(got.version, 0x1b));
    assert_int_equal(strlen(got.host), HOST_BYTES - 1);
    assert_null(strchr(got.host, 0x1b));
}

TEST(first_cause)
{
    job_cause b = {0};
    assert_false(job_cause_due(&b, 1000000));
    job_cause_add(&b, 1, JOB_CAUSE_SECOND, 1000, "rank 1 gave up");
    assert_false(job_cause_due(&b, 1299));
    assert_true(job_cause_due(&b, 1300));
    job_cause_add(&b, 2, JOB_CAUSE_GONE, 1050, "rank 2 is gone"); /* better, and due earlier */
    assert_int_equal(b.rank, 2);
    assert_true(job_cause_due(&b, 1150));
    job_cause_add(&b, 3, JOB_CAUSE_GONE, 1060, "rank 3 is gone"); /* no better: the first stands */
    assert_int_equal(b.rank, 2);
    job_cause_add(&b, 0, JOB_CAUSE_SECOND, 1060, "rank 0 gave up");
    assert_int_equal(b.rank, 2);
    assert_false(job_cause_due(&b, 1149)); /* and nothing delays it */
    job_cause_add(&b, 2, JOB_CAUSE_SURE, 1070, "rank 2 was killed");
    assert_string_equal(b.text, "rank 2 was killed");
    assert_true(job_cause_due(&b, 1070));
}
