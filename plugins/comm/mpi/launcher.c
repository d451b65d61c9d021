/* launcher.c: has an MPI launcher started this process, and as which rank?
 *
 * MPI_Init() works only under a launcher that MPI knows: elsewhere it makes a world of one rank, or
 * ends the process. So the environment is read first. Its numbers also show whether MPI's ranks are
 * those of the job: `mpirun -n 1 weft train -n 4` has four ranks of weft and one of MPI. */
#include "parts.h"

#include <stdlib.h>
#include <weft/device.h>
#include <weft/host.h>

static const struct launcher {
    const char *who, *rank, *size; /* size NULL: it gives none */
} launchers[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpirun (MVAPICH)", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"mpiexec (PMI)", "PMI_RANK", "PMI_SIZE"},
    {"a launcher with PMIx", "PMIX_RANK", NULL},
};

/* A number of the environment; -1: none. */
static long number(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    char *end = NULL;
    const long n = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return n >= 0 && !*end ? n : -1;
}

static weft_status compare(const weft_host *h, const struct launcher *l)
{
    const weft_host_kv *kv = h->iface(h->ctx, "weft.host.kv/1");
    const long rank = number(l->rank), size = number(l->size);
    if (!kv || !kv->ranks) /* a job that is only planned */
        return WEFT_OK;
    if (size >= 0 && size != (long)kv->ranks)
        return mpi_fail(h, WEFT_UNSUPPORTED,
                        "%s has started %ld rank%s and the job has %u: let it start all ranks, as "
                        "in mpirun -n %u weft train job.ini",
                        l->who, size, size == 1 ? "" : "s", kv->ranks, kv->ranks);
    if (rank != (long)kv->rank)
        return mpi_fail(h, WEFT_UNSUPPORTED,
                        "rank %u of the job is rank %ld for %s: let it alone number the ranks "
                        "(unset RANK and WORLD_SIZE)",
                        kv->rank, rank, l->who);
    return WEFT_OK;
}

weft_status mpi_launched(const weft_host *h)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number(launchers[i].rank) >= 0)
            return compare(h, &launchers[i]);
    return mpi_fail(h, WEFT_ABSENT,
                    "MPI has not started this process, so it has no ranks to reach: start the job "
                    "by mpirun, mpiexec or srun --mpi=pmix, as in mpirun -n 4 weft train job.ini");
}

weft_status mpi_usable(const weft_host *h, const weft_conf *conf, uint32_t device_caps)
{
    if (!(device_caps & WEFT_DEV_HOST_MEMORY))
        return mpi_fail(h, WEFT_UNSUPPORTED,
                        "mpi works on host memory only, and the memory of the device is its own");
    const weft_status st = mpi_launched(h);
    if (st != WEFT_OK)
        return st;
    if (getenv("WEFT_ATTEMPT")) /* weft train --restarts */
        return mpi_fail(h, WEFT_UNSUPPORTED,
                        "--restarts cannot be used with MPI: under its launcher a rank can "
                        "initialize MPI once; leave --restarts out, and start the job again with "
                        "--resume=auto");
    return mpi_load(h, conf->text(conf->ctx, "library")) ? WEFT_OK : WEFT_ABSENT;
}
