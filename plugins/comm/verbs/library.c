/* library.c: libibverbs, opened at run time. So the plugin loads on a machine without it, and says
 * what is missing. Functions that the header inlines (posting, polling) are called through tables
 * in the library's objects and need no symbol. */
#include "verbs.h"

#include <dlfcn.h>
#include <string.h>

#define NAMED "libibverbs.so.1"

static const struct symbol {
    const char *name;
    size_t at;
    bool optional;
} symbols[] = {
    {"ibv_get_device_list", offsetof(verbs_api, get_device_list), false},
    {"ibv_free_device_list", offsetof(verbs_api, free_device_list), false},
    {"ibv_get_device_name", offsetof(verbs_api, get_device_name), false},
    {"ibv_open_device", offsetof(verbs_api, open_device), false},
    {"ibv_close_device", offsetof(verbs_api, close_device), false},
    {"ibv_query_device", offsetof(verbs_api, query_device), false},
    {"ibv_query_port", offsetof(verbs_api, query_port), false},
    {"_ibv_query_gid_table", offsetof(verbs_api, query_gid_table), false},
    {"ibv_alloc_pd", offsetof(verbs_api, alloc_pd), false},
    {"ibv_dealloc_pd", offsetof(verbs_api, dealloc_pd), false},
    {"ibv_reg_mr", offsetof(verbs_api, reg_mr), false},
    {"ibv_reg_dmabuf_mr", offsetof(verbs_api, reg_dmabuf_mr), true},
    {"ibv_dereg_mr", offsetof(verbs_api, dereg_mr), false},
    {"ibv_create_comp_channel", offsetof(verbs_api, create_comp_channel), false},
    {"ibv_destroy_comp_channel", offsetof(verbs_api, destroy_comp_channel), false},
    {"ibv_create_cq", offsetof(verbs_api, create_cq), false},
    {"ibv_destroy_cq", offsetof(verbs_api, destroy_cq), false},
    {"ibv_get_cq_event", offsetof(verbs_api, get_cq_event), false},
    {"ibv_ack_cq_events", offsetof(verbs_api, ack_cq_events), false},
    {"ibv_create_qp", offsetof(verbs_api, create_qp), false},
    {"ibv_modify_qp", offsetof(verbs_api, modify_qp), false},
    {"ibv_destroy_qp", offsetof(verbs_api, destroy_qp), false},
    {"ibv_get_async_event", offsetof(verbs_api, get_async_event), false},
    {"ibv_ack_async_event", offsetof(verbs_api, ack_async_event), false},
};

/* The library is never closed: its providers and threads may outlive a job. */
weft_status verbs_load(verbs_module *m)
{
    if (m->loaded)
        return WEFT_OK;
    void *library = dlopen(NAMED, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return sockets_fail(m->host, WEFT_ABSENT,
                            "verbs needs " NAMED ", which this machine does not have (%s); install "
                            "the package libibverbs1 or rdma-core",
                            dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at && !symbols[i].optional)
            return sockets_fail(m->host, WEFT_ABSENT,
                                "the " NAMED " of this machine is too old for verbs: it has no %s",
                                symbols[i].name);
        memcpy((char *)&m->api + symbols[i].at, &at, sizeof at);
    }
    m->loaded = true;
    return WEFT_OK;
}
