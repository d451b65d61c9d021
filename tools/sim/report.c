/* sim/report.c: what a simulation found, for people, for programs, and as a timeline. */
#include "sim/sim.h"

#include "base/err.h"
#include "view/view.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define FLOP_RULE                                                                                  \
    "products and attention (the half of the scores that a causal pass needs), forward and "       \
    "backward, without recomputation"

void sim_free(sim_result *r)
{
    free(r->ranks.at);
    free(r->events.at);
    *r = (sim_result){0};
}

sim_rank sim_mean(const sim_result *r)
{
    sim_rank mean = {0};
    for (uint32_t i = 0; i < r->ranks.n; i++) {
        const sim_rank *x = &r->ranks.at[i];
        mean.compute += x->compute / r->ranks.n;
        mean.tail += x->tail / r->ranks.n;
        mean.bubble += x->bubble / r->ranks.n;
        mean.end += x->end / r->ranks.n;
        for (uint32_t a = 0; a < WEFT_MAX_MESH; a++) {
            mean.exposed[a] += x->exposed[a] / r->ranks.n;
            mean.busy[a] += x->busy[a] / r->ranks.n;
        }
    }
    return mean;
}

static double mfu_of(const sim_result *r)
{
    return r->seconds > 0 ? r->flops / r->seconds / r->peak_flops : 0;
}

/* A part of the step, as limits are sorted by. */
typedef struct part {
    double seconds;
    char text[160];
} part;

static int larger_first(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

#define WORTH 0.02 /* parts of less than this share of the step limit nothing */

void sim_limits(const plan_set *set, const sim_cluster *c, const sim_result *r, char *text,
                size_t capacity)
{
    const graph_mesh *m = &set->spec->mesh;
    sim_rank mean = sim_mean(r);
    part parts[WEFT_MAX_MESH + 2];
    uint32_t n = 0;
    double percent = r->seconds > 0 ? 100 / r->seconds : 0;
    parts[n] = (part){.seconds = mean.bubble};
    snprintf(parts[n++].text, sizeof parts->text, "bubble %.0f %%", mean.bubble * percent);
    parts[n] = (part){.seconds = mean.tail};
    snprintf(parts[n++].text, sizeof parts->text, "optimizer %.0f %%: memory bandwidth",
             mean.tail * percent);
    for (uint32_t a = 0; a < m->n; a++) {
        parts[n] = (part){.seconds = mean.exposed[a]};
        snprintf(parts[n++].text, sizeof parts->text, "%s exposed %.0f %%: link %s", m->name[a],
                 mean.exposed[a] * percent, c->links[r->worst_link[a]].name);
    }
    qsort(parts, n, sizeof *parts, larger_first);
    size_t used = (size_t)snprintf(text, capacity, "computation %.0f %%", mean.compute * percent);
    for (uint32_t i = 0; i < n && parts[i].seconds > WORTH * r->seconds && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "; %s", parts[i].text);
    if ((double)set->peak > c->device.memory && used < capacity)
        snprintf(text + used, capacity - used,
                 "; it does not fit: the peak of %.1f GB is more than the %.1f GB of a device",
                 (double)set->peak / 1e9, c->device.memory / 1e9);
}

/* "dp 4 over nccl x tp 2 over nccl" */
static void describe_mesh(const spec *s, char *text, size_t capacity)
{
    char axis[PLAN_AXIS_TEXT];
    size_t used = 0;
    *text = 0;
    for (uint32_t a = s->mesh.n; a-- > 0 && used < capacity;) {
        view_mesh_axis(s, a, axis, sizeof axis);
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? " x " : "", axis);
    }
}

void sim_print(const plan_set *set, const sim_cluster *c, const sim_result *r, FILE *to)
{
    const graph_mesh *m = &set->spec->mesh;
    sim_rank mean = sim_mean(r);
    char limits[1024], layout[512];
    double percent = r->seconds > 0 ? 100 / r->seconds : 0;
    sim_limits(set, c, r, limits, sizeof limits);
    describe_mesh(set->spec, layout, sizeof layout);
    fprintf(to, "cluster      %s, %u rank%s on %s\n", c->name, set->spec->ranks,
            set->spec->ranks == 1 ? "" : "s", c->device.name);
    fprintf(to, "plan         for device %s%s%s\n", set->spec->device.c->name, *layout ? ", " : "",
            layout);
    fprintf(to, "step         %.4g s +- %.2g s\n", r->seconds, r->error);
    fprintf(to, "tokens       %.4g /s, %.4g /s a rank\n", r->tokens / r->seconds,
            r->tokens / r->seconds / set->spec->ranks);
    fprintf(to, "mfu          %.1f %% of %.4g TFLOP/s: %s\n", 100 * mfu_of(r), r->peak_flops / 1e12,
            FLOP_RULE);
    fprintf(to, "memory       %.2f GB of %.2f GB%s\n\n", (double)set->peak / 1e9,
            c->device.memory / 1e9, (double)set->peak > c->device.memory ? ": does not fit" : "");
    fprintf(to, "mean rank        seconds  share\n");
    fprintf(to, "  compute     %10.4f  %4.1f %%\n", mean.compute, mean.compute * percent);
    for (uint32_t a = 0; a < m->n; a++)
        fprintf(to, "  exposed %-4s%10.4f  %4.1f %%  (busy %.4f)\n", m->name[a], mean.exposed[a],
                mean.exposed[a] * percent, mean.busy[a]);
    fprintf(to, "  bubble      %10.4f  %4.1f %%\n", mean.bubble, mean.bubble * percent);
    fprintf(to, "  optimizer   %10.4f  %4.1f %%\n\n", mean.tail, mean.tail * percent);
    fprintf(to, "%s\n", limits);
}

static json_t *rank_json(const plan_set *set, const sim_rank *x)
{
    const graph_mesh *m = &set->spec->mesh;
    json_t *exposed = json_object(), *busy = json_object();
    for (uint32_t a = 0; a < m->n; a++) {
        json_object_set_new(exposed, m->name[a], json_real(x->exposed[a]));
        json_object_set_new(busy, m->name[a], json_real(x->busy[a]));
    }
    return json_pack("{s:I, s:f, s:f, s:f, s:o, s:o}", "rank", (json_int_t)x->rank, "compute_s",
                     x->compute, "optimizer_s", x->tail, "bubble_s", x->bubble, "exposed_s",
                     exposed, "communication_s", busy);
}

weft_status sim_print_json(const plan_set *set, const sim_cluster *c, const sim_result *r, FILE *to)
{
    char limits[1024], layout[512];
    sim_rank mean = sim_mean(r);
    json_t *ranks = json_array();
    sim_limits(set, c, r, limits, sizeof limits);
    describe_mesh(set->spec, layout, sizeof layout);
    for (uint32_t i = 0; i < r->ranks.n; i++)
        json_array_append_new(ranks, rank_json(set, &r->ranks.at[i]));
    json_t *split = rank_json(set, &mean);
    json_object_del(split, "rank");
    json_t *all = json_pack(
        "{s:s, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:f, s:I, s:I, s:b, s:s, s:o, s:o}",
        "cluster", c->name, "ranks", (json_int_t)set->spec->ranks, "device",
        set->spec->device.c->name, "mesh", layout, "step_s", r->seconds, "error_s", r->error,
        "tokens", r->tokens, "tokens_per_s", r->tokens / r->seconds, "mfu", mfu_of(r), "flops_rule",
        FLOP_RULE, "flops", r->flops, "peak_bytes", (json_int_t)set->peak, "device_bytes",
        (json_int_t)c->device.memory, "fits", (double)set->peak <= c->device.memory, "limits",
        limits, "mean", split, "stages", ranks);
    if (!all)
        return err_fail(WEFT_INTERNAL, "the result cannot be written as JSON");
    int failed = json_dumpf(all, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    fputc('\n', to);
    return failed ? err_fail(WEFT_IO, "cannot write the result") : WEFT_OK;
}

/* A name of the timeline: Chrome's trace format, which ui.perfetto.dev reads. */
static void write_name(FILE *f, const char *what, uint32_t rank, uint32_t lane, const char *name)
{
    json_t *text = json_string(name);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    fprintf(f, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":%s}},\n",
            rank, lane, what, quoted ? quoted : "\"\"");
    free(quoted);
    json_decref(text);
}

static void write_event(FILE *f, const sim_event *e)
{
    json_t *text = json_string(e->name);
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    fprintf(f, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":%s},\n",
            e->rank, e->lane, e->begin * 1e6, (e->end - e->begin) * 1e6, quoted ? quoted : "\"\"");
    free(quoted);
    json_decref(text);
}

weft_status sim_write_trace(const plan_set *set, const sim_result *r, const char *path)
{
    char name[64], temp[PATH_MAX];
    if (snprintf(temp, sizeof temp, "%s.part", path) >= (int)sizeof temp)
        return err_fail(WEFT_USAGE, "the name of the timeline is too long");
    FILE *f = fopen(temp, "w");
    if (!f)
        return err_fail_errno(WEFT_USAGE, "cannot write the timeline %s", path);
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t i = 0; i < r->ranks.n; i++) {
        const uint32_t rank = r->ranks.at[i].rank;
        snprintf(name, sizeof name, "rank %u", rank);
        write_name(f, "process_name", rank, 0, name);
        write_name(f, "thread_name", rank, 0, "compute");
        for (uint32_t c = 0; c < set->at[0].channels.n; c++)
            write_name(f, "thread_name", rank, 1 + c, set->at[0].channels.at[c].name);
    }
    for (uint32_t i = 0; i < r->events.n; i++)
        write_event(f, &r->events.at[i]);
    fprintf(f, "{\"ph\":\"M\",\"pid\":0,\"name\":\"end\",\"args\":{}}]}\n");
    bool failed = ferror(f) != 0;
    failed |= fclose(f) != 0 || rename(temp, path) != 0;
    if (!failed)
        return WEFT_OK;
    const weft_status st = err_fail_errno(WEFT_IO, "cannot write the timeline %s", path);
    unlink(temp);
    return st;
}
