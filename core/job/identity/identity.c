/* job/identity/identity.c: rank and job size from the environment.
 *
 * Launchers set four families of variables. RANK and WORLD_SIZE (ours and torchrun's) have
 * precedence; then mpirun's names (OMPI_COMM_WORLD_* of Open MPI, PMI_* of MPICH and others); then
 * srun's. A pod of an Indexed Job of Kubernetes has JOB_COMPLETION_INDEX, which stands for RANK
 * where only WORLD_SIZE is set; a pod without WORLD_SIZE and MASTER_ADDR is a job of one rank.
 * Contradictions are errors, with one exception: Slurm's variables are inherited by everything
 * inside an allocation, so they never override or contradict another family, and inside a batch
 * script (where SLURM_PROCID is 0 although srun was not called) they are ignored. Under our own
 * launcher only RANK counts.
 *
 * MASTER_ADDR and MASTER_PORT say where rank 0 is. In a Slurm step they need not be set: slurm.h
 * finds both, and the local numbers too, with every --mpi of srun; mpirun_port() does for one
 * machine. torchrun may keep MASTER_PORT for a store of its own; then rank 0's port follows from
 * it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/number/check.h"
#include "base/number/digest.h"
#include "job/control/control.h"
#include "job/identity/slurm.h"
#include "job/job.h"
#include "job/wire/endpoint.h"

#define RANKS_MAX 65536

typedef struct dialect {
    const char *rank, *size, *local, *local_size;
    const char *who;
    const char *run[3]; /* variables that distinguish runs of this launcher; NULL: no more */
} dialect;

typedef struct reading {
    bool rank_set, size_set, local_set, local_size_set;
    uint32_t rank, size, local, local_size;
    uint64_t launch; /* digest of dialect.run */
    bool slurm;      /* a task of a Slurm step; slurm.h has the rest */
    bool mpirun;     /* of Open MPI */
} reading;

static const dialect torch = {"RANK",
                              "WORLD_SIZE",
                              "LOCAL_RANK",
                              "LOCAL_WORLD_SIZE",
                              "RANK and WORLD_SIZE",
                              {"TORCHELASTIC_RUN_ID"}};
static const dialect indexed_job = {"JOB_COMPLETION_INDEX",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "JOB_COMPLETION_INDEX and WORLD_SIZE",
                                    {NULL}};
static const dialect open_mpi = {"OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE",
                                 "mpirun",
                                 {"PMIX_NAMESPACE"}};
static const dialect pmi = {"PMI_RANK",        "PMI_SIZE",      "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS", "mpiexec (PMI)", {"PMI_JOBID"}};

/* A whole number below `limit`; *set: the variable exists. */
static weft_status number(const char *name, uint32_t limit, bool *set, uint32_t *out)
{
    const char *text = name ? getenv(name) : NULL;
    *set = text;
    if (!text)
        return WEFT_OK;
    const char *end = text;
    uint64_t v;
    if (!check_number(&end, UINT64_MAX, &v) || *end)
        return err_fail(WEFT_USAGE,
                        "the environment says %s='%.40s', which is not a whole number: set "
                        "or unset it",
                        name, text);
    if (v >= limit)
        return err_fail(WEFT_USAGE, "the environment says %s=%.40s, and it must be below %u", name,
                        text, limit);
    *out = (uint32_t)v;
    return WEFT_OK;
}

/* 0: the launcher has no name for the run. The parts of a heterogeneous job have different numbers.
 */
static uint64_t run_digest(const dialect *d)
{
    uint64_t h = DIGEST_BEGIN;
    bool any = false;
    for (size_t i = 0; i < sizeof d->run / sizeof *d->run && d->run[i]; i++) {
        const char *text = getenv(d->run[i]);
        any |= text != NULL;
        digest_mix(&h, text ? text : "", text ? strlen(text) + 1 : 1);
    }
    return any && !getenv("SLURM_HET_SIZE") ? h : 0;
}

static weft_status read_dialect(const dialect *d, reading *r)
{
    *r = (reading){0};
    weft_status st = number(d->rank, RANKS_MAX, &r->rank_set, &r->rank);
    if (st == WEFT_OK)
        st = number(d->size, RANKS_MAX + 1, &r->size_set, &r->size);
    if (st == WEFT_OK)
        st = number(d->local, RANKS_MAX, &r->local_set, &r->local);
    if (st == WEFT_OK)
        st = number(d->local_size, RANKS_MAX + 1, &r->local_size_set, &r->local_size);
    r->launch = run_digest(d);
    return st;
}

/* Consistency within one family of variables. */
static weft_status check_complete(const dialect *d, const reading *r)
{
    if (r->rank_set != r->size_set)
        return err_fail(WEFT_USAGE, "the environment has %s without %s: set both or neither",
                        r->rank_set ? d->rank : d->size, r->rank_set ? d->size : d->rank);
    if (!r->rank_set)
        return WEFT_OK;
    if (!r->size)
        return err_fail(WEFT_USAGE, "the environment says %s=0; a job has at least one rank",
                        d->size);
    if (r->rank >= r->size)
        return err_fail(WEFT_USAGE, "the environment says %s=%u, and %s=%u allows ranks 0 to %u",
                        d->rank, r->rank, d->size, r->size, r->size - 1);
    if (r->local_set && r->local > r->rank)
        return err_fail(WEFT_USAGE,
                        "the environment says %s=%u and %s=%u: a rank on one machine cannot "
                        "be above the rank in the job",
                        d->local, r->local, d->rank, r->rank);
    if (r->local_size_set && r->local_size > r->size)
        return err_fail(WEFT_USAGE,
                        "the environment says %s=%u and %s=%u: one machine cannot have more "
                        "ranks than the job",
                        d->local_size, r->local_size, d->size, r->size);
    if (r->local_size_set && r->local_set && r->local >= r->local_size)
        return err_fail(WEFT_USAGE, "the environment says %s=%u and %s=%u: ranks count from 0",
                        d->local, r->local, d->local_size, r->local_size);
    return WEFT_OK;
}

static weft_status agree(const dialect *a, const reading *x, const dialect *b, const reading *y)
{
    bool both = x->rank_set && y->rank_set && y->size > 1;
    if (both && (x->rank != y->rank || x->size != y->size))
        return err_fail(WEFT_USAGE,
                        "%s say rank %u of %u and %s says rank %u of %u: unset the wrong ones",
                        a->who, x->rank, x->size, b->who, y->rank, y->size);
    return WEFT_OK;
}

/* srun names the step's own count; a batch script has SLURM_PROCID, but no step. */
static weft_status read_slurm(reading *r)
{
    dialect d = {"SLURM_PROCID",  "SLURM_NTASKS",
                 "SLURM_LOCALID", NULL,
                 "srun",          {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}};
    if (getenv("SLURM_JOB_ID") || getenv("SLURM_STEP_NUM_TASKS"))
        d.size = "SLURM_STEP_NUM_TASKS";
    *r = (reading){0};
    if (!getenv(d.rank) || !getenv(d.size))
        return WEFT_OK;
    weft_status st = read_dialect(&d, r);
    return st != WEFT_OK ? st : check_complete(&d, r);
}

/* RANK and WORLD_SIZE, or of a pod the latter alone. *which: whose variables they are. */
static weft_status read_plain(const dialect **which, reading *r)
{
    const char *index = getenv("JOB_COMPLETION_INDEX");
    const bool sized = getenv("WORLD_SIZE") != NULL;
    *which = index && !getenv("RANK") && sized ? &indexed_job : &torch;
    if (index && !getenv("RANK") && !sized && getenv("MASTER_ADDR"))
        return err_fail(WEFT_USAGE,
                        "this is pod %.20s of an Indexed Job with MASTER_ADDR=%.60s and without "
                        "WORLD_SIZE: set WORLD_SIZE to the Job's `completions`, or, if each pod "
                        "trains alone, unset MASTER_ADDR",
                        index, getenv("MASTER_ADDR"));
    weft_status st = read_dialect(*which, r);
    return st == WEFT_OK ? check_complete(*which, r) : st;
}

static weft_status find(reading *out)
{
    reading t, o, p, s;
    const dialect *plain;
    weft_status st = read_plain(&plain, &t);
    if (st != WEFT_OK)
        return st;
    *out = t;
    if (t.rank_set && getenv(CONTROL_FD_ENV))
        return WEFT_OK;
    if ((st = read_dialect(&open_mpi, &o)) != WEFT_OK ||
        (st = check_complete(&open_mpi, &o)) != WEFT_OK ||
        (st = read_dialect(&pmi, &p)) != WEFT_OK || (st = check_complete(&pmi, &p)) != WEFT_OK ||
        (st = agree(plain, &t, &open_mpi, &o)) != WEFT_OK ||
        (st = agree(plain, &t, &pmi, &p)) != WEFT_OK ||
        (st = agree(&open_mpi, &o, &pmi, &p)) != WEFT_OK)
        return st;
    if (!t.rank_set && (o.rank_set || p.rank_set)) {
        *out = o.rank_set ? o : p;
        out->mpirun = o.rank_set;
    }
    if (!t.rank_set && !o.rank_set && (st = read_slurm(&s)) == WEFT_OK && s.rank_set &&
        (!p.rank_set || (p.rank == s.rank && p.size == s.size))) {
        *out = s; /* srun --mpi=pmi2 sets PMI_*, which lack what is local */
        out->slurm = true;
    }
    return st;
}

/* MASTER_ADDR, or the node of a Slurm step; it may have a port: "[::1]:29500". */
static weft_status take_address(const char *addr, uint16_t *port, job_identity *out)
{
    if (addr && (!*addr || strlen(addr) >= sizeof out->addr))
        return err_fail(WEFT_USAGE, "MASTER_ADDR has %zu bytes; an address has 1 to %zu",
                        strlen(addr), sizeof out->addr - 1);
    if (!job_endpoint_split(addr ? addr : "127.0.0.1", out->addr, sizeof out->addr, port))
        return err_fail(WEFT_USAGE,
                        "MASTER_ADDR=%s is not NAME, NAME:PORT, an address or [ADDRESS]:PORT",
                        addr);
    return WEFT_OK;
}

/* Where torchrun's store listens at MASTER_PORT: another one. TORCHELASTIC_RESTART_COUNT is left
 * out since agents of several machines count apart. */
static uint32_t beside_store(uint32_t port)
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (!store || strcmp(store, "True") != 0 || getenv(CONTROL_FD_ENV))
        return port;
    const uint64_t h = run_digest(&torch);
    const uint16_t other = job_slurm_port((uint32_t)h + port, (uint32_t)(h >> 32) % 31);
    return other == port ? other + 1u : other;
}

/* The port of MASTER_PORT, of MASTER_ADDR or of a Slurm step, in this order. */
static weft_status take_port(const reading *r, uint16_t of_addr, uint16_t of_step, uint16_t *out)
{
    bool set;
    uint32_t port = 0;
    weft_status st = number("MASTER_PORT", 65536, &set, &port);
    if (st != WEFT_OK)
        return st;
    if (port && of_addr && port != of_addr)
        return err_fail(WEFT_USAGE,
                        "MASTER_ADDR ends with port %u and MASTER_PORT is %u: remove one of them",
                        of_addr, port);
    if (!set)
        port = of_addr ? of_addr : of_step;
    else if (port)
        port = beside_store(port);
    if (!port)
        return err_fail(WEFT_USAGE,
                        "this is rank %u of %u and MASTER_PORT is %s: give every rank the same "
                        "free port of rank 0's machine",
                        r->rank, r->size, set ? "0" : "not set");
    *out = (uint16_t)port;
    return WEFT_OK;
}

/* The ranks of a run of mpirun on one machine meet without being told where: the port follows from
 * the number of the run. 0: mpirun has not numbered it. */
static uint16_t mpirun_port(void)
{
    const char *run = getenv("PMIX_NAMESPACE");
    uint64_t h = DIGEST_BEGIN;
    if (!run || !*run)
        return 0;
    digest_mix(&h, run, strlen(run));
    return job_slurm_port((uint32_t)h, (uint32_t)(h >> 32) % 31);
}

/* MASTER_ADDR and MASTER_PORT, and what of the local numbers follows from them. */
static weft_status find_meeting(reading *r, job_identity *out)
{
    const char *addr = getenv("MASTER_ADDR");
    job_slurm_step step = {.port = 0};
    uint16_t port = 0;
    if (r->slurm && (!addr || !getenv("MASTER_PORT")) && getenv("SLURM_STEP_NODELIST")) {
        const weft_status st = job_slurm_read(&step);
        if (st != WEFT_OK)
            return st;
        r->local_size = step.local_ranks ? step.local_ranks : r->local_size;
        r->local_size_set |= step.local_ranks > r->local;
        out->node = !addr && strcmp(step.addr, "127.0.0.1") != 0;
        addr = addr ? addr : step.addr;
        out->slurm = true;
    }
    if (r->mpirun && !addr && !getenv("MASTER_PORT") && r->local_size == r->size) {
        step.port = mpirun_port();
        out->mpirun = step.port != 0;
    }
    if (!addr && r->local_size_set && r->local_size < r->size)
        return err_fail(WEFT_USAGE,
                        "the %u ranks of this job are on several machines and MASTER_ADDR is "
                        "not set: give every rank the address of rank 0's machine",
                        r->size);
    const weft_status st = take_address(addr, &port, out);
    if (st != WEFT_OK)
        return st;
    const bool here = job_endpoint_says_loopback(out->addr);
    out->local_rank = r->local_set ? r->local : here ? r->rank : 0;
    out->local_ranks = r->local_size_set ? r->local_size : here ? r->size : out->local_rank + 1;
    out->local_rank_said = r->local_set;
    out->local_ranks_said = r->local_size_set;
    return take_port(r, port, step.port, &out->port);
}

weft_status job_identify(job_identity *out)
{
    job_identity me = {.ranks = 1, .local_ranks = 1};
    snprintf(me.addr, sizeof me.addr, "127.0.0.1");
    reading r;
    weft_status st = find(&r);
    if (st != WEFT_OK)
        return st;
    if (r.rank_set) {
        me.launched = true;
        me.rank = r.rank;
        me.ranks = r.size;
        me.launch = r.launch;
        if (r.size > 1 && (st = find_meeting(&r, &me)) != WEFT_OK)
            return st;
    }
    *out = me;
    return WEFT_OK;
}
