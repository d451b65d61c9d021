/* bench/tune_print.c: the table and the file of `weft tune comm`. See tune_command.h. */
#include "bench/tune_command.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/fit.h"
#include "config/config.h"
#include "data/file.h"

/* Slowdown of the selected algorithm against the fastest, over all sizes and collectives. */
typedef struct standing {
    uint32_t rows;
    double logs, worst; /* of the ratios */
    char where[128];    /* the worst */
} standing;

/* One size of one collective. */
typedef struct race {
    const char *name[TUNE_ALGORITHMS];
    double took[TUNE_ALGORITHMS], predicted[TUNE_ALGORITHMS]; /* us */
    uint32_t n, fastest, tuned, plain; /* plain: what `auto` takes without costs */
} race;

static void compare(standing *v, const race *r, uint32_t choice, const char *what, uint64_t bytes)
{
    double ratio = r->took[choice] / r->took[r->fastest];
    v->rows++;
    v->logs += log(ratio);
    if (ratio <= v->worst)
        return;
    v->worst = ratio;
    snprintf(v->where, sizeof v->where, "%s of %llu bytes by %s instead of %s", what,
             (unsigned long long)bytes, r->name[choice], r->name[r->fastest]);
}

static uint32_t place_of(const race *r, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(r->name[i], name))
            return i;
    return 0;
}

static void run_race(const bench_tune_set *t, bench_tune_part *p, uint32_t k, uint32_t size,
                     race *r)
{
    const char *tuned = "", *plain = "";
    *r = (race){0};
    for (uint32_t a = 0; a < TUNE_ALGORITHMS; a++) {
        bench_tune_row *row = &p->row[k][a];
        if (!row->m)
            continue;
        (void)bench_measure_predict(row->m, size, NULL, &plain);
        r->name[r->n] = bench_measure_algorithm(row->m, size);
        r->predicted[r->n] = bench_measure_predict(row->m, size, &p->cost, &tuned) * 1e6;
        r->took[r->n] = bench_fit_median(row->us[size], t->passes);
        r->fastest = r->took[r->n] < r->took[r->fastest] ? r->n : r->fastest;
        r->n++;
    }
    r->tuned = place_of(r, tuned);
    r->plain = place_of(r, plain);
}

/* A line an algorithm. */
static void print_race(const race *r, const char *what, uint64_t bytes, FILE *to)
{
    for (uint32_t i = 0; i < r->n; i++) {
        fprintf(to, "%15s %10llu %18s %12.2f", what, (unsigned long long)bytes, r->name[i],
                r->took[i]);
        if (r->predicted[i] < 0)
            fprintf(to, " %12s", "-");
        else
            fprintf(to, " %12.2f", r->predicted[i]);
        fprintf(to, "%s%s", i == r->fastest ? "  fastest" : "", i == r->tuned ? "  auto" : "");
        if (i == r->tuned && i != r->fastest)
            fprintf(to, ", %.2f times the fastest", r->took[i] / r->took[r->fastest]);
        fprintf(to, "\n");
    }
}

static void print_standing(const standing *v, const char *how, FILE *to)
{
    fprintf(to, "# auto %s takes %.2f times the fastest's time on average", how,
            exp(v->logs / v->rows));
    if (v->worst > 1.005)
        fprintf(to, ", at worst %.2f: %s", v->worst, v->where);
    fprintf(to, "\n");
}

static void print_speed(const char *where, const sched_speed *s, FILE *to)
{
    fprintf(to, "# %slatency %.4g us, message %.4g us, bandwidth %.4g GB/s\n", where,
            s->latency * 1e6, s->message * 1e6, 1e-9 / s->per_byte);
}

static void print_costs(const bench_tune_part *p, FILE *to)
{
    const sched_cost *c = &p->cost;
    bool two = memcmp(&c->intra, &c->inter, sizeof c->intra) != 0;
    fprintf(to, "# %s%s%s, %u ranks\n", p->name, p->axis ? " on mesh axis " : "",
            p->axis ? p->axis : "", p->ranks);
    print_speed(two ? "inside machines: " : "", &c->intra, to);
    if (two)
        print_speed("between machines: ", &c->inter, to);
    fprintf(to, "# reduce %.4g GB/s, memory of others %.4g GB/s\n", 1e-9 / c->reduce,
            1e-9 / c->mapped);
}

void bench_tune_print(const bench_tune_set *t, bench_tune_part *p, FILE *to)
{
    standing tuned = {0}, plain = {0};
    print_costs(p, to);
    fprintf(to, "#%14s %10s %18s %12s %12s\n", "op", "size", "algorithm", "us", "predicted");
    for (uint32_t k = 0; k < p->kinds; k++)
        for (uint32_t i = 0; i < p->sizes; i++) {
            const char *what = sched_kind_word(p->kind[k]);
            race r;
            run_race(t, p, k, i, &r);
            print_race(&r, what, p->bytes[i], to);
            compare(&tuned, &r, r.tuned, what, p->bytes[i]);
            compare(&plain, &r, r.plain, what, p->bytes[i]);
        }
    print_standing(&tuned, "with these costs", to);
    print_standing(&plain, "without", to);
    fprintf(to, "\n");
    fflush(to);
}

/* --- the file --- */

weft_status bench_tune_check_path(const char *path)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    pool names = {0};
    const char *folder = slash ? pool_printf(&names, "%.*s/", (int)(slash - path), path) : ".";
    weft_status st = WEFT_OK;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        st = err_fail(WEFT_USAGE, "cannot write %s: it exists and is not a regular file", path);
    else if (access(folder, W_OK | X_OK))
        st = err_fail_errno(data_file_status(errno), "cannot write %s", path);
    pool_free(&names);
    return st;
}

static void write_text(FILE *to, const char *what, const bench_tune_set *t)
{
    double reduce = 0;
    for (uint32_t i = 0; i < t->probes; i++)
        if (t->probe[i].cost.reduce > reduce)
            reduce = t->probe[i].cost.reduce;
    fprintf(to, CONFIG_TUNED_MARK "%d\n", CONFIG_TUNED_VERSION);
    fprintf(to, "; Written by %s.\n; A job takes these keys with tuned = FILE in [comm].\n\n",
            what);
    fprintf(to, "[comm]\nreduce = %.6g ; GB/s\n", 1e-9 / reduce);
    for (uint32_t i = 0; i < t->probes; i++) {
        const bench_tune_probe *p = &t->probe[i];
        const sched_speed *s = &p->cost.intra;
        fprintf(to, "\n[comm.%s]\nlatency = %.6g ; us\nmessage = %.6g ; us\n", p->c->name,
                s->latency * 1e6, s->message * 1e6);
        fprintf(to, "bandwidth = %.6g ; GB/s\n", 1e-9 / s->per_byte);
        if (bench_tune_maps(t, p))
            fprintf(to, "mapped = %.6g ; GB/s\n", 1e-9 / p->cost.mapped);
    }
}

weft_status bench_tune_write(const char *path, const char *what, const bench_tune_set *t)
{
    pool names = {0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return err_fail_errno(WEFT_NO_MEMORY, "no memory for %s", path);
    write_text(f, what, t);
    int bad = fclose(f);
    const char *temp = pool_printf(&names, "%s.%ld.tmp", path, (long)getpid());
    int fd = bad ? -1 : open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    weft_status st = WEFT_OK;
    if (fd < 0) {
        st = err_fail_errno(data_file_status(errno), "cannot write %s", path);
    } else {
        bad = data_file_write(fd, text, bytes) || data_file_sync(fd);
        bad = close(fd) || bad || rename(temp, path) || data_file_sync_parent(path);
        if (bad) {
            st = err_fail_errno(WEFT_IO, "cannot write %s", path);
            unlink(temp);
        }
    }
    free(text);
    pool_free(&names);
    return st;
}
