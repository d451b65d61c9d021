/* plugins/comm/mpi: collectives and messages of any MPI, on host memory. parts.h lists the files.
 *
 * Both components share MPI: what the first one to begin has set holds for both. */
#include "parts.h"

static const weft_option library = {
    .struct_size = sizeof library,
    .type = WEFT_OPT_STRING,
    .key = "library",
    .dflt = "auto",
    .help = "file or path of the MPI library; auto: that of the build",
};
static const weft_option threads = {
    .struct_size = sizeof threads,
    .type = WEFT_OPT_CHOICE,
    .key = "threads",
    .dflt = "multiple",
    .help = "support for threads to ask of MPI; funneled: a thread of its own makes all calls",
    .choices = "multiple|serialized|funneled",
};
static const weft_option *const options[] = {&library, &threads, NULL};

static weft_status open_module(const weft_host *host, void **module)
{
    weft_status st = WEFT_OK;
    mpi_module *m = weft_new(host, sizeof *m, &st);
    if (!m)
        return st;
    m->host = host;
    *module = m;
    return WEFT_OK;
}

static void close_module(void *module)
{
    mpi_module *m = module;
    if (m)
        m->host->free(m->host->ctx, m);
}

static const weft_component coll = {
    .struct_size = sizeof coll,
    .iface = "weft.coll/1",
    .name = "mpi",
    .help = "collectives of MPI, for ranks that mpirun has started",
    .options = options,
    .table = &mpi_coll,
};
static const weft_component pairs = {
    .struct_size = sizeof pairs,
    .iface = "weft.link/1",
    .name = "mpi_pairs",
    .help = "messages of MPI, for ranks that mpirun has started",
    .options = options,
    .table = &mpi_pairs,
};
static const weft_component *const components[] = {&coll, &pairs, NULL};
WEFT_PLUGIN("weft.mpi", "0.1.0", "Apache-2.0", components, open_module, close_module);
