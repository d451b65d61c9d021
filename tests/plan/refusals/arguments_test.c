/* Does every bad argument of an edit, a query and a rule give an error that names the plugin and
 * the call? Is a plugin that emits without end stopped, soon and with little memory?
 *
 * The strategies and rules here replace a job's own. A row is a call and a part of its message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "job.h"
#include "patience.h"

#include <test.h>

#define JOB TINY "batch = 4\nmicrobatch = 1\n[parallel]\nstrategy = dp\n[optim]\nrule = sgd\n"

static uint32_t rows;
static uint32_t phase_of_rows;

static void row(int line, weft_status got, const char *text)
{
    rows++;
    const bool named = strstr(err_text(), "strategy careless") &&
                       (strstr(err_text(), "edits.") || strstr(err_text(), "view."));
    if (got == WEFT_OK || !strstr(err_text(), text) || !named)
        fail_msg("line %d: status %d, '%s' where '%s' of strategy careless was expected", line,
                 (int)got, err_text(), text);
    err_clear();
}
#define ROW(call, text) row(__LINE__, call, text)

static const char odd[] = "a\tb";
static char long_glob[5000], long_name[80];

static weft_status nothing(void *user, const weft_builder *b)
{
    (void)user, (void)b;
    return WEFT_OK;
}

static weft_builder kept; /* from an emit() that has returned */

/* An emit() that calls another edit. */
static weft_status nested(void *user, const weft_builder *b)
{
    const weft_edits *e = user;
    kept = *b;
    ROW(e->replace(e->ctx, 3, 0, nothing, NULL), "edits.replace(): called while emit() writes");
    ROW(e->split(e->ctx, "tokens", "tokens", "dp", 0), "edits.split(): called while emit() writes");
    return (b->fail)(b->ctx, WEFT_USAGE, "enough");
}

static void after_emit(void)
{
    const weft_builder *b = &kept;
    weft_tensor t;
    const weft_status s = b->constant(b->ctx, 1, 0, &t), r = b->block(b->ctx, "mine", 0);
    if (!s || !r || !strstr(err_text(), "builder.block() is called in edit(), which may look"))
        fail_msg("'%s'", err_text());
    err_clear();
}

/* --- messages of each phase --- */

static void looks(const weft_view *v)
{
    weft_tensor_info info = {.struct_size = sizeof info}, unset = {0};
    const char *name;
    weft_place p;
    weft_opcall call = {.struct_size = sizeof call}, empty = {0};
    assert_int_equal(v->mesh(NULL, "dp") + v->micro_batches(NULL) + v->tensors(NULL), 0);
    assert_int_equal(v->blocks(NULL) + v->ops(NULL) + v->block_params(NULL, 0), 0);
    assert_true(!v->block(NULL, 0) && v->block_flops(NULL, 0) == 0);
    assert_int_equal(v->tensor(NULL, 1, &info), WEFT_USAGE);
    assert_int_equal(v->place(NULL, 1, "dp", &p), WEFT_USAGE);
    assert_int_equal(v->op(NULL, 0, &name, &call), WEFT_USAGE);
    assert_int_equal(v->mesh(v->ctx, NULL), 0);
    assert_int_equal(v->mesh(v->ctx, "no"), 0);
    assert_null(v->block(v->ctx, 9999));
    assert_true(v->block_flops(v->ctx, 9999) == 0);
    assert_int_equal(v->block_params(v->ctx, 9999), 0);
    ROW(v->tensor(v->ctx, 1, NULL), "view.tensor(): out is NULL");
    ROW(v->tensor(v->ctx, 1, &unset), "view.tensor(): struct_size of the struct to fill is 0");
    ROW(v->op(v->ctx, 0, &name, &empty), "view.op(): struct_size of the struct to fill is 0");
    ROW(v->place(v->ctx, 1, NULL, &p), "view.place(): mesh_axis is NULL");
    ROW(v->place(v->ctx, 1, "dp", NULL), "view.place(): out is NULL");
    ROW(v->op(v->ctx, 0, NULL, &call), "view.op(): id is NULL");
    ROW(v->op(v->ctx, 0, &name, NULL), "view.op(): call is NULL");
    assert_int_equal(v->tensor(v->ctx, 9999, &info), WEFT_USAGE);
    assert_int_equal(v->op(v->ctx, 9999, &name, &call), WEFT_USAGE);
    err_clear();
}

static void splits(const weft_edits *e)
{
    void *c = e->ctx;
    const uint32_t coords[2] = {0, 1}, down[2] = {1, 0}, far[2] = {0, 7};
    ROW(e->split(c, NULL, "tokens", "dp", 0), "edits.split(): tensors is NULL");
    ROW(e->split(c, "", "tokens", "dp", 0), "edits.split(): tensors is empty");
    ROW(e->split(c, odd, "tokens", "dp", 0), "edits.split(): tensors has the byte 0x09");
    ROW(e->split(c, long_glob, "tokens", "dp", 0), "is longer than 4096 bytes");
    ROW(e->split(c, "tokens", NULL, "dp", 0), "edits.split(): axis is NULL");
    ROW(e->split(c, "tokens", "", "dp", 0), "edits.split(): axis is empty");
    ROW(e->split(c, "tokens", "tokens", NULL, 0), "edits.split(): mesh_axis is NULL");
    ROW(e->split(c, "tokens", "tokens", "", 0), "edits.split(): mesh_axis is empty");
    ROW(e->split(c, "tokens", "tokens", long_name, 0), "is longer than 63 bytes");
    ROW(e->split(c, "tokens", "tokens", "xy", 0),
        "no strategy of this job brings the mesh axis 'xy'");
    ROW(e->split(c, "nowhere", "tokens", "dp", 0), "no tensor is named 'nowhere'");
    ROW(e->split(c, "tokens", "rows", "dp", 0), "has no axis 'rows'");
    ROW(e->replace(c, 2, 0, NULL, NULL), "edits.replace(): emit is NULL");
    ROW(e->replace(c, 9999, 0, nothing, NULL), "op number 9999 cannot be replaced");
    ROW(e->replace(c, UINT32_MAX, 0, nothing, NULL), "cannot be replaced");
    ROW(e->group(c, NULL, "dp", coords, 2, 0), "edits.group(): name is NULL");
    ROW(e->group(c, "", "dp", coords, 2, 0), "edits.group(): name is empty");
    ROW(e->group(c, "g*", "dp", coords, 2, 0), "has a '*' or '|'");
    ROW(e->group(c, long_name, "dp", coords, 2, 0), "is longer than 63 bytes");
    ROW(e->group(c, "g", NULL, coords, 2, 0), "edits.group(): mesh_axis is NULL");
    ROW(e->group(c, "g", "xy", coords, 2, 0), "no strategy of this job brings");
    ROW(e->group(c, "g", "dp", NULL, 2, 0), "edits.group(): coords is NULL");
    ROW(e->group(c, "g", "dp", coords, 0, 0), "the group g of 0 coordinates");
    ROW(e->group(c, "g", "dp", coords, UINT32_MAX, 0), "the group g of 4294967295 coordinates");
    ROW(e->group(c, "g", "dp", down, 2, 0), "are not ascending numbers below 2");
    ROW(e->group(c, "g", "dp", far, 2, 0), "are not ascending numbers below 2");
    assert_int_equal(e->group(c, "both", "dp", coords, 2, 0), WEFT_OK);
    assert_int_equal(e->group(c, "both", "dp", coords, 2, 0), WEFT_OK);
    ROW(e->group(c, "both", "dp", coords, 1, 0), "the group both exists, with other coordinates");
    ROW(e->sync(c, "*", "dp", WEFT_SYNC_LAST, 0, 0), "it belongs to phase 3");
    ROW(e->replace(c, 2, 0, nested, (void *)e), "enough");
    after_emit();
}

static void stages(const weft_edits *e)
{
    void *c = e->ctx;
    const weft_work cell = {0, 0, WEFT_WORK_FORWARD, 0};
    ROW(e->stage(c, NULL, "dp", 0, 0, 0), "edits.stage(): blocks is NULL");
    ROW(e->stage(c, "", "dp", 0, 0, 0), "edits.stage(): blocks is empty");
    ROW(e->stage(c, long_glob, "dp", 0, 0, 0), "is longer than 4096 bytes");
    ROW(e->stage(c, "*", NULL, 0, 0, 0), "edits.stage(): mesh_axis is NULL");
    ROW(e->stage(c, "*", "xy", 0, 0, 0), "no strategy of this job brings");
    ROW(e->stage(c, "*", "dp", 2, 0, 0), "stage 2 of dp, which has 2");
    ROW(e->stage(c, "*", "dp", 0, UINT32_MAX, 0),
        "edits.stage(): chunk 4294967295 of a model of 4");
    ROW(e->stage(c, "nowhere", "dp", 0, 0, 0), "no block is named 'nowhere'");
    ROW(e->order(c, NULL, 0, &cell, 1, 0), "edits.order(): mesh_axis is NULL");
    ROW(e->order(c, "dp", 0, NULL, 1, 0), "edits.order(): work is NULL");
    ROW(e->order(c, "dp", 9, &cell, 1, 0), "stage 9 of dp");
    ROW(e->order(c, "dp", 0, &cell, 1000, 0), "have at most 24");
    ROW(e->order(c, "dp", 0, &cell, UINT32_MAX, 0), "edits.order(): 4294967295 cells for stage 0");
}

static void sums(const weft_edits *e)
{
    void *c = e->ctx;
    ROW(e->sync(c, NULL, "dp", WEFT_SYNC_LAST, 0, 0), "edits.sync(): params is NULL");
    ROW(e->sync(c, "", "dp", WEFT_SYNC_LAST, 0, 0), "edits.sync(): params is empty");
    ROW(e->sync(c, long_glob, "dp", WEFT_SYNC_LAST, 0, 0), "is longer than 4096 bytes");
    ROW(e->sync(c, "*", NULL, WEFT_SYNC_LAST, 0, 0), "edits.sync(): mesh_axis is NULL");
    ROW(e->sync(c, "*", odd, WEFT_SYNC_LAST, 0, 0), "edits.sync(): mesh_axis has the byte 0x09");
    ROW(e->sync(c, "*", "dp", 0, 0, 0), "0 is no time of sums");
    ROW(e->sync(c, "*", "dp", 99, 0, 0), "99 is no time of sums");
    ROW(e->sync(c, "*", "dp", WEFT_SYNC_LAST, 3, 0), "buckets of 3 bytes");
    ROW(e->shard(c, WEFT_SHARD_STATE, NULL, "dp", 0, 0), "edits.shard(): params is NULL");
    ROW(e->shard(c, WEFT_SHARD_STATE, "", "dp", 0, 0), "edits.shard(): params is empty");
    ROW(e->shard(c, WEFT_SHARD_STATE, "*", NULL, 0, 0), "edits.shard(): mesh_axis is NULL");
    ROW(e->shard(c, 99, "*", "dp", 0, 0), "the kind 99 is unknown");
    ROW(e->shard(c, WEFT_SHARD_STATE, "nowhere", "dp", 0, 0), "has a name like 'nowhere'");
    ROW(e->periodic_list(c, NULL, 1, 0, nothing, NULL), "edits.periodic_list(): name is NULL");
    ROW(e->periodic_list(c, "", 1, 0, nothing, NULL), "edits.periodic_list(): name is empty");
    ROW(e->periodic_list(c, long_name, 1, 0, nothing, NULL), "is longer than 63 bytes");
    ROW(e->periodic_list(c, "a|b", 1, 0, nothing, NULL), "has a '*' or '|'");
    ROW(e->periodic_list(c, "l", 1, 0, NULL, NULL), "edits.periodic_list(): emit is NULL");
    ROW(e->periodic_list(c, "l", 0, 0, nothing, NULL), "the number of steps must be at least 1");
    ROW(e->periodic_list(c, "step", 1, 0, nothing, NULL), "already has a list with that name");
    ROW(e->periodic_list(c, "mine", 1, 0, nested, (void *)e), "enough");
    after_emit();
    ROW(e->split(c, "tokens", "tokens", "dp", 0), "it belongs to phase 1");
}

static void keeps(const weft_edits *e)
{
    void *c = e->ctx;
    char line[1100];
    memset(line, 'l', sizeof line - 1);
    line[sizeof line - 1] = 0;
    ROW(e->activations(c, NULL, WEFT_ACTIVATION_WHOLE, NULL, 0),
        "edits.activations(): tensors is NULL");
    ROW(e->activations(c, "", WEFT_ACTIVATION_WHOLE, NULL, 0),
        "edits.activations(): tensors is empty");
    ROW(e->activations(c, "*", 99, NULL, 0), "in the unknown mode 99");
    ROW(e->activations(c, "*", 0, NULL, 0), "in the unknown mode 0");
    ROW(e->activations(c, "*", WEFT_ACTIVATION_SPLIT, NULL, 0), "in shards over '(no mesh axis)'");
    ROW(e->activations(c, "nowhere", WEFT_ACTIVATION_WHOLE, NULL, 0), "has a name like 'nowhere'");
    ROW(e->weight_versions(c, NULL, 2, 0), "edits.weight_versions(): params is NULL");
    ROW(e->weight_versions(c, "*", 2, 0), "does not apply");
    ROW(e->changes_results(c, NULL, 0), "edits.changes_results(): text is NULL");
    ROW(e->changes_results(c, "", 0), "the text has no byte");
    ROW(e->changes_results(c, line, 0), "the text has too many bytes");
    ROW(e->changes_results(c, "two\nlines", 0), "the control character 0x0a");
    ROW(e->periodic_list(c, "l", 1, 0, nothing, NULL), "it belongs to phase 3");
}

static weft_status edit(void *m, const weft_conf *conf, uint32_t phase, const weft_view *v,
                        const weft_edits *e)
{
    (void)m, (void)conf;
    memset(long_glob, 'g', sizeof long_glob - 1);
    memset(long_name, 'n', sizeof long_name - 1);
    if (phase != phase_of_rows)
        return WEFT_OK;
    looks(v);
    if (phase == WEFT_PHASE_SPLIT)
        splits(e);
    if (phase == WEFT_PHASE_STAGE)
        stages(e);
    if (phase == WEFT_PHASE_SYNC)
        sums(e);
    if (phase == WEFT_PHASE_MEMORY)
        keeps(e);
    return WEFT_OK; /* as if no call had failed */
}

static host_component as_strategy(const weft_strategy *table)
{
    return (host_component){
        .kind = "parallel", .iface = "weft.strategy/1", .name = "careless", .table = table};
}

static void expect(const char *lines, const host_component *strategy, const host_component *rule,
                   const char *text)
{
    planned j;
    weft_status st = planned_with(lines, 2, strategy, rule, &j);
    if (st == WEFT_OK || !strstr(err_text(), text) ||
        strstr(err_text(), "careless: strategy careless"))
        fail_msg("status %d, '%s' where '%s' was expected", (int)st, err_text(), text);
    err_clear();
    planned_free(&j);
}

/* Planning reports the first error, even if edit() ignored it. */
TEST(bad_edits)
{
    static const weft_strategy table = {.struct_size = sizeof table, .edit = edit};
    static const char *const first[] = {
        "strategy careless: edits.split(): tensors is NULL (its edit() went on and",
        "edits.stage(): blocks is NULL (its edit() went on and",
        "edits.sync(): params is NULL (its edit() went on and",
        "edits.activations(): tensors is NULL (its edit() went on and"};
    const host_component c = as_strategy(&table);
    for (uint32_t phase = WEFT_PHASE_SPLIT; phase <= WEFT_PHASE_MEMORY; phase++) {
        phase_of_rows = phase;
        expect(JOB, &c, NULL, first[phase - 1]);
    }
    print_message("%u bad arguments\n", rows);
    assert_true(rows > 90);
}

/* --- return values of edit() --- */

static int answer;

static weft_status answers(void *m, const weft_conf *conf, uint32_t phase, const weft_view *v,
                           const weft_edits *e)
{
    (void)m, (void)conf, (void)phase, (void)v, (void)e;
    return (weft_status)answer;
}

TEST(bad_answers)
{
    static const weft_strategy table = {.struct_size = sizeof table, .edit = answers};
    const host_component c = as_strategy(&table);
    answer = WEFT_IO;
    expect(JOB, &c, NULL, "strategy careless: its edit() failed and gave no reason");
    answer = WEFT_BUSY;
    expect(JOB, &c, NULL,
           "strategy careless: its edit() returned 1, which is not a failure status");
    answer = -7;
    expect(JOB, &c, NULL,
           "strategy careless: its edit() returned -7, which is not a failure status");
}

/* --- rules --- */

static const char *wrong;

static weft_status update(void *m, const weft_conf *conf, const weft_builder *b,
                          const weft_update *u)
{
    (void)m, (void)conf;
    const weft_tensor in[2] = {u->param, u->grad};
    weft_tensor t = u->grad, next;
    if (!strcmp(wrong, "scalar"))
        return b->assign(b->ctx, u->param, u->lr, 0);
    if (!strcmp(wrong, "block"))
        return b->block(b->ctx, "mine", 0);
    if (!strcmp(wrong, "silent"))
        return WEFT_DATA;
    if (!strcmp(wrong, "number"))
        return (weft_status)1234;
    while (!strcmp(wrong, "endless")) {
        weft_status st = b->op(b->ctx, "neg", NULL, 0, &t, 1, 0, &next, 1);
        if (st != WEFT_OK)
            return st;
        t = next;
    }
    weft_status st = b->op(b->ctx, "sub", NULL, 0, in, 2, 0, &t, 1);
    return st != WEFT_OK ? st : b->assign(b->ctx, u->param, t, 0);
}

static const weft_rule rules[] = {{sizeof(weft_rule), WEFT_UNIT_ELEMENT, update},
                                  {sizeof(weft_rule), WEFT_UNIT_TENSOR, update}};

static host_component as_rule(const weft_rule *table)
{
    return (host_component){
        .kind = "optim", .iface = "weft.rule/1", .name = "mine", .table = table};
}

TEST(bad_rules)
{
    static const struct {
        const char *wrong, *text;
    } bad[] = {
        {"scalar", "update rule mine: builder.assign(): p cannot take lr, a tensor of another"},
        {"block", "update rule mine: builder.block() is called in an update rule"},
        {"silent", "update rule mine: the rule: its update() failed and gave no reason"},
        {"number", "its update() returned 1234, which is not a failure status"},
        {"endless", "which is the limit; check for an endless loop"},
    };
    for (uint32_t unit = 0; unit < 2; unit++) {
        const host_component c = as_rule(&rules[unit]);
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            wrong = bad[i].wrong;
            expect(JOB, NULL, &c, bad[i].text);
        }
        planned j;
        wrong = "";
        if (planned_with(JOB, 2, NULL, &c, &j) != WEFT_OK)
            fail_msg("%s", err_text());
        planned_free(&j);
    }
}

/* --- tables --- */

#define DP "[parallel]\nstrategy = dp\n"

TEST(bad_tables)
{
    static const struct {
        const char *lines, *text;
    } bad[] = {
        {DP "[optim]\nrule = unit0\n",
         "update rule unit0 has unit = 0; there are WEFT_UNIT_ELEMENT"},
        {DP "[optim]\nrule = unit4\n", "update rule unit4 has unit = 4"},
        {DP "[optim]\nrule = unit99\n", "update rule unit99 has unit = 99"},
        {DP "[optim]\nplacement = sealed\n", "the table of placement sealed has flags 0x2"},
        {"[parallel]\nstrategy = flagged\n", "the table of strategy flagged has flags 0x4"},
        {"[parallel]\nstrategy = axis_size\n", "strategy axis_size: a mesh axis of 8 bytes"},
        {"[parallel]\nstrategy = axis_flags\n", "the mesh axis ax has the unknown flags 0x18"},
        {"[parallel]\nstrategy = axis_both\n", "the mesh axis ax has the flags 0x3, of which one"},
        {"[parallel]\nstrategy = axis_unnamed\n", "the name of a mesh axis is not made of a-z"},
        {"[parallel]\nstrategy = axis_empty\n", "the name of a mesh axis is not made of a-z"},
        {"[parallel]\nstrategy = axis_spaced\n", "the name of a mesh axis is not made of a-z"},
        {"[parallel]\nstrategy = axis_long\n", "the name of a mesh axis is not made of a-z"},
        {"[parallel]\nstrategy = axis_keyless\n", "the size_key of a mesh axis is not made of"},
        {"[parallel]\nstrategy = axis_key\n", "the size_key of a mesh axis is not made of a-z"},
        {"[parallel]\nstrategy = axis_helpless\n", "the mesh axis ax has no line of help"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text, TINY "batch = 4\nmicrobatch = 1\n%s", bad[i].lines);
        expect(text, NULL, NULL, bad[i].text);
    }
}

/* --- plugins that do not end --- */

/* Sanitizers need memory, and so does the emulator that runs the builds for other processors. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __x86_64__
#define MAX_MB 2000
#else
#define MAX_MB 200
#endif

static uint32_t endless_phase;

static weft_status endless(void *m, const weft_conf *conf, uint32_t phase, const weft_view *v,
                           const weft_edits *e)
{
    (void)m, (void)conf, (void)v;
    const uint32_t coords[2] = {0, 1};
    weft_status st = WEFT_OK;
    char line[1000];
    for (uint32_t i = 0; phase == endless_phase && st == WEFT_OK; i++) {
        snprintf(line, sizeof line, "%0*u", (int)sizeof line - 20, i);
        if (phase == WEFT_PHASE_SPLIT)
            st = i % 2 ? e->split(e->ctx, "tokens|targets", "tokens", "dp", 0)
                       : e->group(e->ctx, "all", "dp", coords, 2, 0);
        if (phase == WEFT_PHASE_STAGE)
            st = e->stage(e->ctx, "*", "dp", 0, 0, 0);
        if (phase == WEFT_PHASE_SYNC)
            st = i % 2 ? e->sync(e->ctx, line, "dp", WEFT_SYNC_LAST, 0, 0)
                       : e->periodic_list(e->ctx, line + sizeof line - 60, 1, 0, nothing, NULL);
        if (phase == WEFT_PHASE_MEMORY)
            st = i % 2 ? e->activations(e->ctx, "*#*", WEFT_ACTIVATION_WHOLE, NULL, 0)
                       : e->changes_results(e->ctx, line, 0);
    }
    return st;
}

static weft_status endless_list_of(void *user, const weft_builder *b)
{
    weft_tensor t = *(const weft_tensor *)user;
    for (weft_status st;;)
        if ((st = b->op(b->ctx, "neg", NULL, 0, &t, 1, 0, &t, 1)) != WEFT_OK)
            return st;
}

static weft_status endless_list(void *m, const weft_conf *conf, uint32_t phase, const weft_view *v,
                                const weft_edits *e)
{
    (void)m, (void)conf;
    weft_tensor_info info = {.struct_size = sizeof info};
    weft_tensor t = 0;
    while (info.kind != WEFT_T_PARAM && v->tensor(v->ctx, ++t, &info) == WEFT_OK)
        info.struct_size = sizeof info;
    return phase == WEFT_PHASE_SYNC ? e->periodic_list(e->ctx, "mine", 1, 0, endless_list_of, &t)
                                    : WEFT_OK;
}

/* In a separate process: the message, within 2 s of CPU time and 200 MB. */
static void ends(const host_component *strategy, const host_component *rule, const char *text)
{
    struct rusage used;
    int status;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        planned j;
        weft_status st = planned_with(JOB, 2, strategy, rule, &j);
        if (st != WEFT_OK && !strstr(err_text(), text))
            fprintf(stderr, "it says: %s\n", err_text());
        _exit(st != WEFT_OK && strstr(err_text(), text) ? 0 : 1);
    }
    assert_int_equal(wait4(child, &status, 0, &used), child);
    const double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    print_message("%s: %.2f s, %ld MB\n", text, seconds, used.ru_maxrss / 1024);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(seconds * 1000 < (double)patience(2000));
    assert_true(used.ru_maxrss < MAX_MB * 1024);
}

TEST(plugins_without_end_do)
{
    static const weft_strategy edits = {.struct_size = sizeof edits, .edit = endless};
    static const weft_strategy lists = {.struct_size = sizeof lists, .edit = endless_list};
    static const char *const said[] = {"the plugin has emitted 16384 edits in one call of phase 1",
                                       "the plugin has emitted 16384 edits in one call of phase 2",
                                       "the plugin has emitted 16384 edits in one call of phase 3",
                                       "the lines of this job have more than 16384 bytes"};
    const host_component c = as_strategy(&edits), of_list = as_strategy(&lists);
    for (endless_phase = WEFT_PHASE_SPLIT; endless_phase <= WEFT_PHASE_MEMORY; endless_phase++)
        ends(&c, NULL, said[endless_phase - 1]);
    ends(&of_list, NULL, "builder.op() in a list: plugins have called the builder 131072 times");
    wrong = "endless";
    for (uint32_t unit = 0; unit < 2; unit++) {
        const host_component r = as_rule(&rules[unit]);
        ends(NULL, &r, "builder.op() in an update rule: plugins have called the builder 131072");
    }
}
