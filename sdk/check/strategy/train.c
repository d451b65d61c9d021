/* check/strategy/train.c: trains a small model with this program and rank processes, and reads loss
 * and norm of each step. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "base/time/pressure.h"
#include "check/strategy/strategy.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/tokens.h>

#define TOKENS 4000u
#define VOCAB 64u
#define SECONDS 20u
#define WORDS 48u

typedef struct place { /* a folder for one run */
    char folder[256], self[PATH_MAX];
    char *words[WORDS];
    uint32_t n;
} place;

/* A word of the command line. */
__attribute__((format(printf, 2, 3))) static void word(place *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (p->n + 1 >= WORDS || vasprintf(&p->words[p->n], fmt, ap) < 0)
        check_fail("no memory for a command line");
    p->n++;
    va_end(ap);
}

static void write_all(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd))
        check_fail("%s cannot be written", path);
}

/* Tokens that a model can learn something of. */
static void write_tokens(const place *p, uint64_t seed)
{
    static struct {
        int32_t header[WEFT_TOKENS_HEADER_WORDS];
        uint16_t tokens[TOKENS];
    } file;
    uint64_t state = seed;
    file.header[0] = (int32_t)WEFT_TOKENS_MAGIC;
    file.header[1] = 1;
    file.header[2] = TOKENS;
    file.header[3] = VOCAB;
    for (uint32_t i = 0, x = 1; i < TOKENS; i++) {
        x = (5 * x + (uint32_t)(check_random(&state) % 3)) % VOCAB;
        file.tokens[i] = (uint16_t)x;
    }
    write_all(p->folder, "tokens.bin", &file, sizeof file);
    write_all(p->folder, "job.ini", "[run]\nname = check\n", 19);
}

/* The plugin, where the job finds it: FOLDER/parallel/check.so. */
static void copy_plugin(const place *p, const char *from)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/parallel", p->folder);
    const int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (mkdir(path, 0700) || fd < 0 || fstat(fd, &st))
        check_fail("%s cannot be copied", from);
    char *all = mem_alloc((size_t)st.st_size);
    if (read(fd, all, (size_t)st.st_size) != st.st_size)
        check_fail("%s cannot be read", from);
    close(fd);
    write_all(p->folder, "parallel/check.so", all, (size_t)st.st_size);
    free(all);
}

static void write_words(place *p, uint32_t n)
{
    static const char *const fixed[] = {
        "model.layers=2",       "model.heads=4",      "model.embed=32",
        "model.ffn=64",         "model.context=16",   "model.vocab=64",
        "train.batch=8",        "train.microbatch=1", "train.sequence=16",
        "train.precision=fp32", "train.eval_every=0", "device.threads=1",
        "log.progress=0",       "log.peak_gflops=1",  "log.sinks=jsonl",
        "optim.lr=1e-2",        "optim.warmup=0",     NULL};
    word(p, "%s", p->self);
    word(p, "train");
    word(p, "-n");
    word(p, "%u", n);
    word(p, "%s/job.ini", p->folder);
    for (uint32_t i = 0; fixed[i]; i++)
        word(p, "%s", fixed[i]);
    word(p, "data.train=%s/tokens.bin", p->folder);
    word(p, "run.out=%s/out", p->folder);
    word(p, "run.plugins=%s", p->folder);
    word(p, "run.steps=%u", CHECK_TRAIN_STEPS);
    word(p, "run.deadline=10");
}

static const char *family_name(check_spy *s, uint32_t family)
{
    static char name[WEFT_MAX_NAME];
    static spec of;
    config *options = NULL;
    check_exercise d = {.run = s->run, .host = s->host, .of = s->c->name};
    d.job.family = family;
    check_exercise_spec(&of, &d);
    if (check_exercise_family(&d, &of, &options) != WEFT_OK || !of.family.c)
        check_not_applicable("no model family to train: %s", d.absent);
    snprintf(name, sizeof name, "%s", of.family.c->name);
    config_destroy(options);
    pool_free(&of.pool);
    return name;
}

/* --- the process --- */

/* What another launcher may have left in the environment, which would make the job one rank of it.
 */
static void forget_launchers(void)
{
    static const char *const names[] = {"RANK",         "WORLD_SIZE",           "LOCAL_RANK",
                                        "MASTER_ADDR",  "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "LOCAL_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static pid_t start(const place *p)
{
    char path[512];
    snprintf(path, sizeof path, "%s/said", p->folder);
    const pid_t pid = fork();
    if (pid)
        return pid;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the launcher's ranks end with it */
    forget_launchers();
    if (fd >= 0 && none >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2 && dup2(none, 0) == 0)
        execv(p->self, p->words);
    _exit(127);
}

static int wait_for(pid_t pid, bool *late)
{
    int status = 0;
    const uint64_t until = pressure_ms() + SECONDS * 1000ull;
    *late = false;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (pressure_ms() > until) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            *late = true;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return status;
}

static void read_metrics(const place *p, check_trained *out)
{
    char path[512], line[4096];
    uint32_t n = 0;
    snprintf(path, sizeof path, "%s/out/metrics.jsonl", p->folder);
    FILE *f = fopen(path, "re");
    while (f && n < CHECK_TRAIN_STEPS && fgets(line, sizeof line, f)) {
        const char *loss = strstr(line, "\"loss\":"), *norm = strstr(line, "\"grad_norm\":");
        if (!loss || !norm)
            continue;
        out->loss[n] = strtod(loss + 7, NULL);
        out->norm[n++] = strtod(norm + 12, NULL);
    }
    if (f)
        fclose(f);
    out->ran = n == CHECK_TRAIN_STEPS;
}

/* The last line that speaks of an error, or the last one: what is shown, and decides nothing. */
static void read_why(const place *p, char *out, size_t size)
{
    char path[512], line[1024];
    bool error = false;
    snprintf(path, sizeof path, "%s/said", p->folder);
    FILE *f = fopen(path, "re");
    snprintf(out, size, "it says nothing");
    while (f && fgets(line, sizeof line, f)) {
        const bool is = strstr(line, "error") != NULL;
        line[strcspn(line, "\n")] = 0;
        if (*line && !error)
            snprintf(out, size, "%s", line);
        error |= is;
    }
    if (f)
        fclose(f);
}

static void remove_all(const place *p)
{
    char command[512];
    const pid_t pid = fork();
    snprintf(command, sizeof command, "%s", p->folder);
    if (!pid) {
        execlp("rm", "rm", "-rf", command, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* An installed strategy over whose one axis a job shares its batch; NULL: none. */
static const host_component *sharer(check_spy *s)
{
    const host_component **all;
    uint32_t n;
    host_list(s->run->h, "parallel", &all, &n);
    for (uint32_t i = 0; i < n; i++) {
        const weft_strategy *t = all[i]->table;
        if (all[i]->iface && !strcmp(all[i]->iface, "weft.strategy/1") && t && t->axes &&
            t->axes[0] && !t->axes[1] && t->axes[0]->flags == WEFT_AXIS_BATCH)
            return all[i];
    }
    return NULL;
}

bool check_train_spreads(check_spy *s)
{
    return check_spy_axes(s) || sharer(s);
}

void check_train(check_spy *s, uint32_t family, uint32_t axis, uint32_t n, const char *key,
                 const char *value, check_trained *out)
{
    static place p;
    const weft_strategy *t = s->c->table;
    const char *tmp = getenv("TMPDIR");
    bool late;
    memset(&p, 0, sizeof p);
    memset(out, 0, sizeof *out);
    snprintf(p.folder, sizeof p.folder, "%.200s/weft-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (host_program_beside("weft", p.self) != WEFT_OK || access(p.self, X_OK))
        check_not_applicable("there is no program %s to train with", p.self);
    if (!mkdtemp(p.folder))
        check_fail("no folder for a run under %s", tmp && *tmp ? tmp : "/tmp");
    write_tokens(&p, s->run->seed);
    copy_plugin(&p, s->run->path);
    write_words(&p, n);
    word(&p, "model.family=%s", family_name(s, family));
    const host_component *beside = check_spy_axes(s) ? NULL : sharer(s);
    word(&p, "parallel.strategy=%s%s%s", s->c->name, beside ? ", " : "",
         beside ? beside->name : "");
    for (uint32_t i = 0; i < check_spy_axes(s); i++)
        word(&p, "parallel.%s=%u", t->axes[i]->size_key, i == axis ? n : 1);
    if (key)
        word(&p, "parallel.%s=%s", key, value);
    const pid_t pid = start(&p);
    if (pid < 0)
        check_fail("no process for a job");
    const int status = wait_for(pid, &late);
    read_metrics(&p, out);
    if (late)
        snprintf(out->why, sizeof out->why, "the job did not end within %u seconds", SECONDS);
    else if (status || !out->ran)
        read_why(&p, out->why, sizeof out->why);
    out->ran = out->ran && !status && !late;
    remove_all(&p);
    for (uint32_t i = 0; i < p.n; i++)
        free(p.words[i]);
}

static double share_apart(double a, double b)
{
    const double apart = a == b ? 0 : fabs(a - b) / fabs(b); /* a norm may be 0 */
    return isnan(apart) ? (double)INFINITY : apart;
}

double check_train_apart(const check_trained *a, const check_trained *b)
{
    double max = 0;
    for (uint32_t i = 0; i < CHECK_TRAIN_STEPS; i++) {
        max = fmax(max, share_apart(a->loss[i], b->loss[i]));
        max = fmax(max, share_apart(a->norm[i], b->norm[i]));
    }
    return max;
}
