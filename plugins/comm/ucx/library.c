/* library.c: libucp, opened at run time. So the plugin loads on a machine without it, and says what
 * is missing.
 *
 * When it is loaded, libucs reads settings from the environment, and by default it takes over the
 * signals of crashes and a signal for debugging, starts a thread for its own statistics, and
 * patches functions of the C library that unmap memory. These belong to the process. So during the
 * load the environment says otherwise, and is restored afterwards. Where another library of the
 * process has loaded libucs already, its settings stay. */
#include "ucx.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NAMED "libucp.so.0"
#define OLDEST 12 /* 1.12: all calls that are used, and shared memory with failures of peers */

static const struct symbol {
    const char *name;
    size_t at;
    bool optional;
} symbols[] = {
    {"ucp_get_version", offsetof(ucx_api, get_version), false},
    {"ucs_status_string", offsetof(ucx_api, status_string), false},
    {"ucp_config_read", offsetof(ucx_api, config_read), false},
    {"ucp_config_modify", offsetof(ucx_api, config_modify), false},
    {"ucp_config_release", offsetof(ucx_api, config_release), false},
    {"ucp_init_version", offsetof(ucx_api, init_version), false},
    {"ucp_cleanup", offsetof(ucx_api, cleanup), false},
    {"ucp_context_print_info", offsetof(ucx_api, context_print_info), false},
    {"ucp_worker_create", offsetof(ucx_api, worker_create), false},
    {"ucp_worker_destroy", offsetof(ucx_api, worker_destroy), false},
    {"ucp_worker_get_address", offsetof(ucx_api, worker_get_address), false},
    {"ucp_worker_release_address", offsetof(ucx_api, worker_release_address), false},
    {"ucp_worker_get_efd", offsetof(ucx_api, worker_get_efd), false},
    {"ucp_worker_arm", offsetof(ucx_api, worker_arm), false},
    {"ucp_worker_progress", offsetof(ucx_api, worker_progress), false},
    {"ucp_ep_create", offsetof(ucx_api, ep_create), false},
    {"ucp_ep_close_nbx", offsetof(ucx_api, ep_close), false},
    {"ucp_tag_send_nbx", offsetof(ucx_api, tag_send), false},
    {"ucp_tag_recv_nbx", offsetof(ucx_api, tag_recv), false},
    {"ucp_tag_probe_nb", offsetof(ucx_api, tag_probe), false},
    {"ucp_request_check_status", offsetof(ucx_api, request_check), false},
    {"ucp_request_cancel", offsetof(ucx_api, request_cancel), false},
    {"ucp_request_free", offsetof(ucx_api, request_free), false},
    {"ucs_log_push_handler", offsetof(ucx_api, log_push_handler), true},
};

/* Variables during the load; NULL: memory_hooks decides. */
static const char *const tamed[][2] = {{"UCX_HANDLE_ERRORS", "none"},     {"UCX_ERROR_SIGNALS", ""},
                                       {"UCX_DEBUG_SIGNO", "0"},          {"UCX_VFS_ENABLE", "n"},
                                       {"UCX_WARN_UNUSED_ENV_VARS", "n"}, {"UCX_MEM_EVENTS", NULL}};
enum { TAMED = sizeof tamed / sizeof tamed[0] };

static void *open_tamed(const char *hooks)
{
    char *before[TAMED];
    for (int i = 0; i < TAMED; i++) {
        const char *now = getenv(tamed[i][0]);
        before[i] = now ? strdup(now) : NULL;
        setenv(tamed[i][0], tamed[i][1] ? tamed[i][1] : hooks, 1);
    }
    void *library = dlopen(NAMED, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < TAMED; i++) {
        if (before[i])
            setenv(tamed[i][0], before[i], 1);
        else
            unsetenv(tamed[i][0]);
        free(before[i]);
    }
    return library;
}

/* The library is never closed: its threads may outlive a job. */
weft_status ucx_load(ucx_module *m, const weft_conf *conf)
{
    if (m->loaded)
        return WEFT_OK;
    void *library = open_tamed(conf->integer(conf->ctx, "memory_hooks") != 0 ? "y" : "n");
    if (!library)
        return sockets_fail(m->host, WEFT_ABSENT,
                            "ucx needs " NAMED ", which this machine does not have (%s); install "
                            "the package libucx0 or ucx",
                            dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at && !symbols[i].optional)
            return sockets_fail(m->host, WEFT_ABSENT,
                                "the " NAMED " of this machine is too old for ucx: it has no %s",
                                symbols[i].name);
        memcpy((char *)&m->api + symbols[i].at, &at, sizeof at);
    }
    unsigned release;
    m->api.get_version(&m->major, &m->minor, &release);
    if (m->major != 1 || m->minor < OLDEST)
        return sockets_fail(m->host, WEFT_ABSENT,
                            "the " NAMED " of this machine is UCX %u.%u; ucx needs 1.%d or a later "
                            "1.x",
                            m->major, m->minor, OLDEST);
    ucx_log_to(m);
    m->loaded = true;
    return WEFT_OK;
}
