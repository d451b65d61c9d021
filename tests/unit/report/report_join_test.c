/* report_join_test.c: report_join_trace() of parts that are cut or damaged. What a rank that died
 * has left is in trace.json, which is JSON whatever the part has. */
#include "report/record.h"

#include "base/number/rng.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <test.h>

#define EVENTS 4u
#define DAMAGED 3000u

static char folder[] = "/tmp/weft-join-XXXXXX";
static char part[4096];
static size_t bytes, ends[EVENTS]; /* of the part; of it after each event */

static void add(const void *data, size_t n)
{
    memcpy(part + bytes, data, n);
    bytes += n;
}

static void add_record(run_trace_record r)
{
    add(&r, sizeof r);
}

/* `texts`: with the 0 of each, `n` bytes. */
static void add_subject(run_trace_subject s, uint8_t count, const char *texts, uint16_t n)
{
    s.texts = count;
    s.text_bytes = n;
    add_record((run_trace_record){.kind = TRACE_SUBJECT});
    add(&s, sizeof s);
    add(texts, n);
}

/* Two steps of a call and an operation. */
static void make_part(void)
{
    static const char operation[] = "all-reduce of loss\0ring\0dp.scalars";
    bytes = 0;
    add_record((run_trace_record){.kind = TRACE_CLOCK, .began = 1000});
    add(&(run_trace_clock){-500, 20}, sizeof(run_trace_clock));
    for (uint32_t i = 0; i < EVENTS; i++) {
        const uint64_t began = 10000 * (i + 1);
        if (i == 0)
            add_subject((run_trace_subject){.live = 4096}, 1, "forward \"embed\"", 16);
        if (i == 1)
            add_subject((run_trace_subject){.bytes = 8, .sent = 4, .ranks = 2, .out = 1, .in = 1},
                        3, operation, sizeof operation);
        add_record((run_trace_record){.kind = TRACE_EVENT,
                                      .lane = i % 2 ? TRACE_COMM : TRACE_COMPUTE,
                                      .subject = i % 2,
                                      .step = i / 2,
                                      .began = began,
                                      .ended = began + 5000});
        ends[i] = bytes;
    }
    add_record((run_trace_record){.kind = TRACE_END});
}

/* The slices in trace.json of a part with these bytes. */
static json_t *slices_of(const char *data, size_t n)
{
    static const graph_mesh mesh = {.n = 1, .name = {"dp"}, .size = {1}};
    char path[64];
    snprintf(path, sizeof path, "%s/.trace-0.part", folder);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(report_join_trace(&(run_trace_parts){folder, 1, &mesh, 7, true}), WEFT_OK);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/trace.json", folder);
    json_t *all = json_load_file(path, JSON_DECODE_INT_AS_REAL, NULL), *found = json_array(), *e;
    size_t i;
    assert_true(all || access(path, F_OK));
    json_array_foreach (json_object_get(all, "traceEvents"), i, e)
        if (!strcmp(json_string_value(json_object_get(e, "ph")), "X"))
            json_array_append(found, e);
    json_decref(all);
    unlink(path);
    return found;
}

TEST(a_part_that_is_cut_has_its_whole_events)
{
    make_part();
    for (size_t n = 0; n <= bytes; n++) {
        size_t whole = 0;
        while (whole < EVENTS && ends[whole] <= n)
            whole++;
        json_t *found = slices_of(part, n);
        assert_int_equal(json_array_size(found), whole);
        json_decref(found);
    }
    json_t *found = slices_of(part, bytes), *first = json_array_get(found, 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "forward ?embed?");
    assert_true(json_real_value(json_object_get(first, "ts")) == 9.5);
    json_t *last = json_object_get(json_array_get(found, 3), "args");
    assert_int_equal(json_real_value(json_object_get(last, "step")), 8);
    assert_string_equal(json_string_value(json_object_get(last, "algorithm")), "ring");
    json_decref(found);
}

TEST(a_part_that_is_damaged_gives_json)
{
    char damaged[sizeof part];
    const uint64_t key = rng_key(1, "parts of a trace");
    for (uint32_t i = 0; i < DAMAGED; i++) {
        memcpy(damaged, part, bytes);
        for (uint32_t k = 0; k < 1 + i % 4; k++) {
            const uint64_t number = 8 * i + 2 * k;
            damaged[rng_below(key, number, bytes)] ^= (char)(1 + rng_below(key, number + 1, 255));
        }
        json_decref(slices_of(damaged, bytes));
    }
}

static int make_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
