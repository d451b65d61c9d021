/* tests/nccl/nccl_test.c: in which order does the plugin call NCCL, and what does it make of the
 * answers? */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <test.h>

#include <weft/coll.h>

#include <nccl.h>

#include "double.h"

static char why[1024], logged[256];
static const weft_coll_table *table;
static void *module;
static double_state *state;
static char memory[4096];

static void *take(void *ctx, uint64_t bytes, uint64_t align)
{
    (void)ctx, (void)align;
    return calloc(1, bytes);
}

static void give(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int32_t enabled(void *ctx, int32_t level)
{
    (void)ctx, (void)level;
    return 1;
}

static void log_text(void *ctx, int32_t level, const char *text)
{
    (void)ctx, (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

static weft_status fail_text(void *ctx, weft_status code, const char *text)
{
    (void)ctx;
    snprintf(why, sizeof why, "%s", text);
    return code;
}

static const void *no_table(void *ctx, const char *id)
{
    (void)ctx, (void)id;
    return NULL;
}

static const weft_host host = {.struct_size = sizeof host,
                               .alloc = take,
                               .free = give,
                               .log_enabled = enabled,
                               .log = log_text,
                               .fail = fail_text,
                               .iface = no_table};

static const char *text(void *ctx, const char *key)
{
    (void)ctx;
    return strcmp(key, "interface") ? "" : "lo";
}

static int64_t integer(void *ctx, const char *key)
{
    (void)ctx;
    return strcmp(key, "max_ctas") ? 0 : 4;
}

static const weft_conf conf = {.struct_size = sizeof conf, .text = text, .integer = integer};

static int begin(void **ctx)
{
    (void)ctx;
    void *plugin = dlopen(NCCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    const weft_manifest *(*entry)(void) = NULL;
    void *symbol = plugin ? dlsym(plugin, "weft_plugin_entry") : NULL;
    memcpy(&entry, &symbol, sizeof entry);
    state = library ? dlsym(library, "nccl_double") : NULL;
    if (!entry || !state)
        return 1;
    table = entry()->components[0]->table;
    return entry()->open(&host, &module);
}

static weft_comm *open_one(void)
{
    int stream;
    char id[4096];
    uint64_t bytes = sizeof id;
    weft_comm *c = NULL;
    *state = (double_state){.version = 22809, .base = memory, .answer = ncclInProgress, .busy = 2};
    state->answer = ncclSuccess;
    assert_int_equal(table->id(module, &conf, id, &bytes), WEFT_OK);
    assert_int_equal(bytes, sizeof(ncclUniqueId));
    state->answer = ncclInProgress;
    weft_coll_args args = {.struct_size = sizeof args,
                           .rank = 1,
                           .ranks = 4,
                           .id = id,
                           .id_bytes = bytes,
                           .stream = &stream,
                           .conf = &conf};
    assert_int_equal(table->open(module, &args, &c), WEFT_OK);
    assert_int_equal(table->ready(c), WEFT_BUSY);
    assert_int_equal(table->ready(c), WEFT_BUSY);
    assert_int_equal(table->ready(c), WEFT_OK);
    state->answer = ncclSuccess;
    assert_int_equal(table->register_memory(c, memory, sizeof memory, 0), WEFT_OK);
    assert_string_equal(state->calls, "id;init 1/4 u blocking=0 ctas=4;register 4096;");
    state->calls[0] = 0;
    return c;
}

TEST(probed)
{
    int32_t score = 7;
    assert_int_equal(table->probe(module, &conf, WEFT_DEV_HOST_MEMORY, &score), WEFT_OK);
    assert_int_equal(score, 0);
    assert_non_null(strstr(why, "NVIDIA GPUs only"));
    assert_int_equal(table->probe(module, &conf, WEFT_DEV_CUDA_MEMORY, &score), WEFT_OK);
    assert_int_equal(score, 90);
    assert_string_equal(logged, "NCCL 2.28.9");
    assert_string_equal(getenv("NCCL_SOCKET_IFNAME"), "lo");
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    assert_int_equal(table->probe(module, &conf, WEFT_DEV_CUDA_MEMORY, &score), WEFT_OK);
    assert_int_equal(score, 0);
    assert_non_null(strstr(why, "3 ranks share 2 GPUs"));
    setenv("NCCL_HOSTID", "apart", 1);
    assert_int_equal(table->probe(module, &conf, WEFT_DEV_CUDA_MEMORY, &score), WEFT_OK);
}

static void call(weft_comm *c, uint32_t kind, uint32_t dtype, uint32_t root)
{
    assert_int_equal(table->call(c, &(weft_coll_call){sizeof(weft_coll_call), 0, kind, WEFT_MAX,
                                                      dtype, root, memory, memory, 64, memory}),
                     WEFT_OK);
}

TEST(one_call_a_kind)
{
    weft_comm *c = open_one();
    state->answer = ncclInProgress; /* what is enqueued in a group is under way */
    assert_int_equal(table->begin(module, 0), WEFT_OK);
    call(c, WEFT_ALL_REDUCE, WEFT_BF16, 0);
    call(c, WEFT_REDUCE_SCATTER, WEFT_F32, 0);
    call(c, WEFT_ALL_GATHER, WEFT_F32, 0);
    call(c, WEFT_BROADCAST, WEFT_I64, 2);
    call(c, WEFT_REDUCE, WEFT_I32, 3);
    call(c, WEFT_SEND, WEFT_F16, 2);
    call(c, WEFT_RECV, WEFT_F16, 0);
    assert_int_equal(table->end(module, 0), WEFT_BUSY); /* the core polls ready() then */
    state->answer = ncclSuccess;
    char want[512];
    snprintf(want, sizeof want,
             "(all-reduce 64 type %d op %d;reduce-scatter 16;all-gather 16;broadcast 64 from 2;"
             "reduce 64 to 3;send 64 to 2 from 0;recv 64 from 0 at 0;)",
             ncclBfloat16, ncclMax);
    assert_string_equal(state->calls, want);
    state->calls[0] = 0;
    call(c, WEFT_ALL_TO_ALL, WEFT_F32, 0);
    call(c, WEFT_GATHER, WEFT_F32, 1);
    call(c, WEFT_SCATTER, WEFT_F32, 0);
    assert_string_equal(state->calls,
                        "send 16 to 0 from 0;recv 16 from 0 at 0;send 16 to 1 from 64;"
                        "recv 16 from 1 at 64;send 16 to 2 from 128;recv 16 from 2 at 128;"
                        "send 16 to 3 from 192;recv 16 from 3 at 192;"
                        "recv 16 from 0 at 0;send 16 to 1 from 0;recv 16 from 1 at 64;"
                        "recv 16 from 2 at 128;recv 16 from 3 at 192;recv 16 from 0 at 0;");
    assert_int_equal(table->call(c, &(weft_coll_call){sizeof(weft_coll_call), 0, WEFT_BARRIER, 0,
                                                      WEFT_F32, 0, NULL, NULL, 0, memory}),
                     WEFT_UNSUPPORTED);
    table->close(c);
}

TEST(closed)
{
    weft_comm *c = open_one();
    table->close(c);
    assert_string_equal(state->calls, "deregister;finalize;destroy;");
    c = open_one();
    table->abort(c);
    table->abort(c);
    table->close(c);
    assert_string_equal(state->calls, "abort;");
    table->close(NULL);
}

TEST(failures)
{
    weft_comm *c = open_one();
    state->busy = 1;
    assert_int_equal(table->health(c), WEFT_OK); /* at work is well */
    state->state = ncclRemoteError;
    assert_int_equal(table->health(c), WEFT_PEER);
    assert_string_equal(why, "NCCL: a communicator that was at work: remote process exited: rank 3 "
                             "is gone");
    state->state = ncclSystemError;
    assert_int_equal(table->ready(c), WEFT_IO);
    state->answer = ncclInvalidUsage;
    assert_int_equal(table->end(module, 0), WEFT_USAGE);
    assert_int_equal(table->register_memory(c, memory, 64, 0), WEFT_UNSUPPORTED);
    table->abort(c);
    table->close(c);
}

int main(void)
{
    return test_run(begin, NULL);
}
