/* Times that are computed by hand: a product, a ring, shared ports, a pipeline of equal stages, and
 * communication beside computation. The plans are made here, entry by entry. */

#include <test.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "sim/sim.h"

static void near_to(double is, double should)
{
    if (fabs(is - should) > 1e-9 * fabs(should) + 1e-15)
        fail_msg("%.12g, should be %.12g", is, should);
}

/* 100 TFLOP/s, 1 TB/s, nothing else. */
static sim_device plain_device(void)
{
    return (sim_device){.memory = 80e9,
                        .bandwidth = 1e12,
                        .stream = 1,
                        .bf16 = 100e12,
                        .reach = 1,
                        .tile_rows = 128,
                        .tile_columns = 128,
                        .copy = 10e9};
}

static sim_link plain_link(const char *name, uint64_t devices, double ports, double bandwidth)
{
    sim_link l = {.devices = devices,
                  .ports = ports,
                  .bandwidth = bandwidth,
                  .oversubscription = 1,
                  .reach = 1,
                  .short_reach = 1};
    snprintf(l.name, sizeof l.name, "%s", name);
    return l;
}

/* Machines of 4 devices: 100 GB/s within, 2 ports of 10 GB/s each beyond. */
static sim_cluster plain_cluster(void)
{
    sim_cluster c = {.per_machine = 4, .device = plain_device(), .nlinks = 2};
    c.links[0] = plain_link("near", 4, 1, 100e9);
    c.links[1] = plain_link("far", UINT64_MAX, 2, 10e9);
    return c;
}

static plan_kernel product(weft_operand *o, int64_t m, int64_t n, int64_t inner)
{
    o[0] = (weft_operand){.dtype = WEFT_BF16, .rank = 2, .size = {m, inner}};
    o[1] = (weft_operand){.dtype = WEFT_BF16, .rank = 2, .size = {n, inner}};
    o[2] = (weft_operand){.dtype = WEFT_BF16, .rank = 2, .size = {m, n}};
    return (plan_kernel){.spec = {.id = "linear", .nin = 2, .nout = 1, .in = o, .out = o + 2},
                         .flops = 2.0 * (double)m * (double)n * (double)inner};
}

/* 2 * 4096^3 operations at 100 TFLOP/s; the bytes take less. */
TEST(a_product_takes_its_operations)
{
    weft_operand o[3];
    sim_device d = plain_device();
    plan_kernel k = product(o, 4096, 4096, 4096);
    near_to(sim_op_seconds(&d, &k), 2.0 * 4096 * 4096 * 4096 / 100e12);
    d.launch = 5e-6;
    near_to(sim_op_seconds(&d, &k), 2.0 * 4096 * 4096 * 4096 / 100e12 + 5e-6);
    d.launch = 0;
    d.ramp = 4096; /* half the rate at this inner length */
    near_to(sim_op_seconds(&d, &k), 2 * 2.0 * 4096 * 4096 * 4096 / 100e12);
}

/* 4096 x 4096 is 1,024 tiles of 128 x 128: on 100 processors 11 rounds for the work of 10.24. */
TEST(tiles_come_in_rounds)
{
    weft_operand o[3];
    sim_device d = plain_device();
    plan_kernel k = product(o, 4096, 4096, 4096);
    d.units = 100;
    near_to(sim_op_seconds(&d, &k), 2.0 * 4096 * 4096 * 4096 / 100e12 * 11 / 10.24);
}

/* With an inner length of 1 the result's bytes take longest: 32 MiB and two vectors at 1 TB/s. */
TEST(a_thin_product_takes_its_bytes)
{
    weft_operand o[3];
    sim_device d = plain_device();
    plan_kernel k = product(o, 4096, 4096, 1);
    near_to(sim_op_seconds(&d, &k), (4096.0 * 4096 * 2 + 2 * 4096 * 2) / 1e12);
    k.flops = 0;
    d.stream = 0.5;
    near_to(sim_op_seconds(&d, &k), 2 * (4096.0 * 4096 * 2 + 2 * 4096 * 2) / 1e12);
}

static graph_mesh two_axes(uint32_t inner, uint32_t outer)
{
    return (graph_mesh){.n = 2, .name = {"in", "out"}, .size = {inner, outer}};
}

/* 4 devices at 100 GB/s: 2 * 3 / 4 of the bytes, and 6 steps, or 4 of a tree with all bytes. */
TEST(a_ring_over_one_level)
{
    const uint32_t ranks[] = {0, 1, 2, 3};
    sim_cluster c = plain_cluster();
    graph_mesh m = two_axes(4, 1);
    sim_route r;
    sim_route_make(&c, &m, 0, ranks, 4, &r);
    near_to(r.rate[0], 100e9);
    near_to(r.rate[1], 0);
    near_to(sim_library_seconds(&r, WEFT_ALL_REDUCE, 1e9), 1.5e9 / 100e9);
    near_to(sim_library_seconds(&r, WEFT_ALL_GATHER, 1e9), 0.75e9 / 100e9);
    c.links[0].latency = c.links[0].short_latency = 1e-6;
    near_to(sim_library_seconds(&r, WEFT_ALL_REDUCE, 1e9), 1.5e9 / 100e9 + 6e-6);
    near_to(sim_library_seconds(&r, WEFT_ALL_REDUCE, 4), 8 / 100e9 + 4e-6);
    near_to(sim_library_seconds(&r, WEFT_SEND, 1e9), 1e9 / 100e9 + 1e-6);
}

/* Along the outer axis 4 groups cross the 2 ports of 10 GB/s at once: 5 GB/s for each. With a port
 * for each device it is 10. A group of whole machines has all ports for itself. */
TEST(groups_share_ports)
{
    const uint32_t apart[] = {1, 5}, all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    sim_cluster c = plain_cluster();
    graph_mesh m = two_axes(4, 2), flat = two_axes(8, 1);
    sim_route r;
    sim_route_make(&c, &m, 1, apart, 2, &r);
    near_to(r.rate[1], 5e9);
    assert_int_equal(r.slowest, 1);
    c.links[1].ports = 4;
    sim_route_make(&c, &m, 1, apart, 2, &r);
    near_to(r.rate[1], 10e9);
    sim_route_make(&c, &flat, 0, all, 8, &r);
    near_to(r.rate[0], 100e9);
    near_to(r.rate[1], 40e9);
    near_to(sim_library_seconds(&r, WEFT_ALL_REDUCE, 8e9), 2 * 7 / 8.0 * 8e9 / 40e9);
    c.links[1].oversubscription = 2;
    sim_route_make(&c, &flat, 0, all, 8, &r);
    near_to(r.rate[1], 20e9);
}

/* --- plans made by hand --- */

#define STAGES 4u
#define BATCHES 8u

typedef struct made {
    spec s;
    plan_set set;
    plan plans[STAGES];
} made;

/* Segment 0 and 1: forward and backward, whose bytes at 1 TB/s take these seconds. */
static void add_segments(plan *p, weft_operand *o, const double seconds[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        o[i] = (weft_operand){
            .dtype = WEFT_F32, .rank = 1, .size = {(int64_t)(seconds[i] * 1e12 / 4)}};
        *vec_push(&p->kernels) = (plan_kernel){.spec = {.id = "ew", .nout = 1, .out = &o[i]}};
        *vec_push(&p->instrs) = (plan_instr){.kernel = i, .nout = 1};
        *vec_push(&p->segments) = (plan_segment){.name = "segment", .first = i, .n = 1};
    }
}

static void add_entry(plan *p, uint32_t kind, uint32_t what)
{
    *vec_push(&p->step.entries) = (plan_entry){.kind = kind, .what = what, .name = "entry"};
}

static uint32_t add_pair(plan *p, uint32_t kind, uint32_t number, uint64_t bytes)
{
    *vec_push(&p->collectives) = (plan_collective){.name = "pair",
                                                   .channel = number,
                                                   .kind = kind,
                                                   .dtype = WEFT_F32,
                                                   .count = bytes / 4,
                                                   .algorithm = "library"};
    return p->collectives.n - 1;
}

static void begin(made *x, uint32_t stages, uint32_t width)
{
    *x = (made){0};
    x->s.ranks = stages * width;
    x->s.mesh = (graph_mesh){.n = 2, .name = {"dp", "pp"}, .size = {width, stages}};
    x->s.compute = WEFT_BF16;
    x->set = (plan_set){.spec = &x->s, .stage_axis = 1, .n = stages, .at = x->plans};
    for (uint32_t i = 0; i < stages; i++) {
        x->plans[i].spec = &x->s;
        x->plans[i].stage = i;
    }
}

static void end(made *x)
{
    for (uint32_t i = 0; i < x->set.n; i++) {
        plan *p = &x->plans[i];
        free(p->kernels.at);
        free(p->instrs.at);
        free(p->segments.at);
        free(p->channels.at);
        free(p->collectives.at);
        free(p->step.entries.at);
    }
}

static const uint32_t between[STAGES - 1][2] = {{0, 1}, {1, 2}, {2, 3}};

/* One forward or backward of a stage in a pipeline, with what it receives and sends. Channels
 * 0 ... STAGES - 2 go forward, the others back. */
static void pass(plan *p, bool backward, uint64_t bytes)
{
    uint32_t i = p->stage, back = backward ? STAGES - 1 : 0;
    bool first = backward ? i == STAGES - 1 : i == 0, last = backward ? i == 0 : i == STAGES - 1;
    if (!first) {
        uint32_t c = add_pair(p, WEFT_RECV, back + (backward ? i : i - 1), bytes);
        add_entry(p, ENTRY_START, c);
        add_entry(p, ENTRY_WAIT, c);
    }
    add_entry(p, ENTRY_CALL, backward);
    if (!last)
        add_entry(p, ENTRY_START, add_pair(p, WEFT_SEND, back + (backward ? i - 1 : i), bytes));
}

static void one_f_one_b(made *x, weft_operand o[STAGES][2], uint64_t bytes)
{
    const double seconds[2] = {1, 2};
    begin(x, STAGES, 1);
    for (uint32_t i = 0; i < STAGES; i++) {
        plan *p = &x->plans[i];
        uint32_t ahead = STAGES - 1 - i;
        add_segments(p, o[i], seconds);
        for (uint32_t k = 0; k < 2 * (STAGES - 1); k++)
            *vec_push(&p->channels) = (plan_channel){
                .name = "stage", .mesh_axis = 1, .ncoords = 2, .coords = between[k % (STAGES - 1)]};
        for (uint32_t k = 0; k < BATCHES + ahead; k++) {
            if (k < BATCHES)
                pass(p, false, bytes);
            if (k >= ahead)
                pass(p, true, bytes);
        }
    }
}

/* m + p - 1 slots of a forward and a backward, of which p - 1 idle: (p - 1) / (m + p - 1). */
TEST(equal_stages_idle_as_the_formula_says)
{
    made x;
    weft_operand o[STAGES][2];
    sim_result r;
    sim_cluster c = plain_cluster();
    c.links[0].bandwidth = 1e30;
    one_f_one_b(&x, o, 4);
    assert_int_equal(sim_run(&x.set, &c, false, &r), WEFT_OK);
    near_to(r.seconds, 3.0 * (BATCHES + STAGES - 1));
    near_to(sim_mean(&r).bubble / r.seconds, (STAGES - 1) / (double)(BATCHES + STAGES - 1));
    near_to(sim_mean(&r).compute, 3.0 * BATCHES);
    sim_free(&r);
    end(&x);
}

/* A transfer of 0.5 s delays the first forward of the last stage by 3 of them, and the last
 * backward of the first stage by 3 more. Between, a forward of the next stage waits for a transfer
 * in each round trip; so the step is longer than without by at least these 6. */
TEST(transfers_lengthen_a_pipeline)
{
    made x;
    weft_operand o[STAGES][2];
    sim_result r;
    sim_cluster c = plain_cluster();
    one_f_one_b(&x, o, 50000000000u);
    assert_int_equal(sim_run(&x.set, &c, true, &r), WEFT_OK);
    assert_true(r.seconds >= 3.0 * (BATCHES + STAGES - 1) + 6 * 0.5 - 1e-9);
    for (uint32_t i = 0; i < r.ranks.n; i++) {
        const sim_rank *k = &r.ranks.at[i];
        near_to(k->compute + k->bubble + k->exposed[1] + k->tail, r.seconds);
    }
    assert_true(r.events.n > 2 * STAGES * BATCHES);
    sim_free(&r);
    end(&x);
}

/* Two calls of 1 s with an all-reduce of 4 devices that takes `seconds` beside the second. */
static double overlapped(double seconds, double *exposed)
{
    made x;
    weft_operand o[2];
    sim_result r;
    sim_cluster c = plain_cluster();
    const double calls[2] = {1, 1};
    begin(&x, 1, 4);
    plan *p = &x.plans[0];
    add_segments(p, o, calls);
    *vec_push(&p->channels) = (plan_channel){.name = "grads", .mesh_axis = 0};
    uint32_t sum = add_pair(p, WEFT_ALL_REDUCE, 0, (uint64_t)(seconds * 100e9 / 1.5 / 4 + 0.5) * 4);
    add_entry(p, ENTRY_CALL, 0);
    add_entry(p, ENTRY_START, sum);
    add_entry(p, ENTRY_CALL, 1);
    add_entry(p, ENTRY_WAIT, sum);
    assert_int_equal(sim_run(&x.set, &c, false, &r), WEFT_OK);
    double step = r.seconds;
    *exposed = r.ranks.at[0].exposed[0];
    sim_free(&r);
    end(&x);
    return step;
}

TEST(computation_hides_communication)
{
    double exposed;
    near_to(overlapped(0.75, &exposed), 2);
    near_to(exposed, 0);
    near_to(overlapped(1.5, &exposed), 2.5);
    near_to(exposed, 0.5);
}

TEST(a_job_has_to_fit_the_cluster)
{
    made x;
    sim_result r;
    sim_cluster c = plain_cluster();
    begin(&x, 1, 8);
    c.machines = 1;
    assert_int_equal(sim_run(&x.set, &c, false, &r), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "8 ranks"));
    x.s.compute = WEFT_F16;
    c.machines = 2;
    assert_int_equal(sim_run(&x.set, &c, false, &r), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "no fp16"));
    end(&x);
}

/* Each wrong text, and a word of its message. */
TEST(wrong_cluster_files_are_refused)
{
#define RIGHT "[accelerator]\nbf16 = 1\n[link.x]\n"
    static const char *const wrong[][2] = {
        {"", "none of fp32"},
        {"[accelerator]\nbf16 = 1\n", "no section [link.NAME]"},
        {RIGHT "devices = 4\n", "outermost"},
        {RIGHT "[link.y]\n", "equally many"},
        {RIGHT "[link.y]\ndevices = 4\n[link.z]\ndevices = 6\n", "make up"},
        {RIGHT "[link.y]\ndevices = 4\n", "devices = 8"},
        {RIGHT "[train]\nbatch = 1\n", "[train] is no section"},
        {RIGHT "[link.]\n", "is no section"},
        {RIGHT "bandwith = 1\n", "bandwidth"},
        {RIGHT "bandwidth = -1\n", "bandwidth"},
        {RIGHT "reach = 2\n", "reach"},
    };
    sim_cluster c;
    assert_int_equal(sim_cluster_parse(RIGHT, "c.ini", &c), WEFT_OK);
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err_clear();
        assert_int_equal(sim_cluster_parse(wrong[i][0], "c.ini", &c), WEFT_USAGE);
        if (!strstr(err_text(), wrong[i][1]) || !strstr(err_text(), "c.ini"))
            fail_msg("%s: %s", wrong[i][0], err_text());
    }
}

/* Levels are sorted, and units are those of the file. */
TEST(a_cluster_file_is_read)
{
    sim_cluster c;
    assert_int_equal(
        sim_cluster_parse("[cluster]\nname = two\ndevices = 2\nmachines = 3\n[link.out]\n"
                          "bandwidth = 12.5\nlatency = 5\n[link.in]\ndevices = 2\nbandwidth = 300\n"
                          "[accelerator]\nbf16 = 312\nmemory = 40\nattention = stored\n",
                          "c.ini", &c),
        WEFT_OK);
    assert_string_equal(c.name, "two");
    assert_int_equal(c.per_machine, 2);
    assert_int_equal(c.machines, 3);
    assert_int_equal(c.nlinks, 2);
    assert_string_equal(c.links[0].name, "in");
    near_to(c.links[0].bandwidth, 300e9);
    near_to(c.links[1].latency, 5e-6);
    near_to(c.links[1].short_latency, 5e-6);
    assert_true(c.links[1].devices == UINT64_MAX);
    near_to(c.device.bf16, 312e12);
    near_to(c.device.memory, 40e9);
    assert_int_equal(c.device.attention, SIM_STORED);
}
