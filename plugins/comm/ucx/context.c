/* context.c: a UCX context: its settings, and which transports it has found.
 *
 * Settings: UCX's own variables (UCX_TLS and the others) and file apply; keys of [comm.ucx] come
 * before them. Where neither says which transports to use, UCX's tcp is left out: whoever reaches
 * its port talks to UCX before anybody is authenticated, and weft has a tcp of its own. Where tcp
 * is named, UCX listens on the interface with this rank's address alone. */
#include "ucx.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS "/sys/class/infiniband"

static bool same_address(const struct sockaddr *a, const sockets_endpoint *b)
{
    if (!a || a->sa_family != b->any.sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &b->v6.sin6_addr, 16) == 0;
}

/* The interface with this rank's address; that of any address of 127.0.0.0/8 is "lo". */
static void interface_of(const sockets_endpoint *bound, char *out, size_t size)
{
    struct ifaddrs *all = NULL;
    out[0] = '\0';
    if (bound->any.sa_family == AF_INET && ntohl(bound->v4.sin_addr.s_addr) >> 24 == 127)
        snprintf(out, size, "lo");
    if (out[0] != '\0' || getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && out[0] == '\0'; i = i->ifa_next)
        if (same_address(i->ifa_addr, bound))
            snprintf(out, size, "%s", i->ifa_name);
    freeifaddrs(all);
}

/* This rank's interface, and all RDMA ports. */
static void devices_of(const sockets_endpoint *bound, char *out, size_t size)
{
    DIR *devices = opendir(PORTS);
    interface_of(bound, out, size);
    for (struct dirent *e; devices && (e = readdir(devices));) {
        size_t used = strlen(out);
        if (e->d_name[0] != '.' && used + strlen(e->d_name) + 8 < size)
            snprintf(out + used, size - used, "%s%.64s:1,%.64s:2", used > 0 ? "," : "", e->d_name,
                     e->d_name);
    }
    if (devices)
        closedir(devices);
}

static weft_status set(const ucx_module *m, ucp_config_t *config, const char *key,
                       const char *value)
{
    const ucs_status_t why = m->api.config_modify(config, key, value);
    return why == UCS_OK ? WEFT_OK
                         : sockets_fail(m->host, WEFT_USAGE, "UCX does not accept %s=%.100s: %s",
                                        key, value, m->api.status_string(why));
}

static bool is_auto(const char *value)
{
    return !value || value[0] == '\0' || strcmp(value, "auto") == 0;
}

/* "^" before a list means all but these. */
static bool allows_tcp(const char *list)
{
    if (list[0] == '^')
        return !strstr(list, "tcp");
    return strstr(list, "tcp") || strstr(list, "all");
}

static weft_status configure(const ucx_module *m, const weft_conf *conf,
                             const sockets_endpoint *bound, ucp_config_t *config)
{
    const char *tls = conf->text(conf->ctx, "tls"), *devices = conf->text(conf->ctx, "devices");
    const char *site = getenv("UCX_TLS");
    char chosen[1024];
    weft_status st = WEFT_OK;
    if (is_auto(tls))
        tls = site ? NULL : "^tcp";
    if (tls)
        st = set(m, config, "TLS", tls);
    if (!is_auto(devices))
        return st != WEFT_OK ? st : set(m, config, "NET_DEVICES", devices);
    if (st != WEFT_OK || !bound || getenv("UCX_NET_DEVICES") || !allows_tcp(tls ? tls : site))
        return st;
    devices_of(bound, chosen, sizeof chosen);
    return chosen[0] != '\0' ? set(m, config, "NET_DEVICES", chosen) : WEFT_OK;
}

/* UCX prints "resource 3 : md 2 dev 2 flags -- rc_mlx5/mlx5_0:1". */
static void take_names(const ucx_module *m, ucp_context_h context, ucx_found *found)
{
    char *text = NULL, *rest = NULL;
    size_t bytes = 0, used = 0;
    FILE *to = open_memstream(&text, &bytes);
    memset(found, 0, sizeof *found);
    if (!to)
        return;
    m->api.context_print_info(context, to);
    fclose(to);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *name = strrchr(line, ' ');
        if (!strstr(line, "resource ") || !name || !strchr(name, '/'))
            continue;
        name++;
        found->rdma |= strncmp(name, "rc", 2) == 0 || strncmp(name, "ud", 2) == 0 ||
                       strncmp(name, "dc", 2) == 0 || strncmp(name, "srd", 3) == 0;
        found->tcp |= strncmp(name, "tcp", 3) == 0;
        if (used < sizeof found->names)
            used += (size_t)snprintf(found->names + used, sizeof found->names - used, "%s%s",
                                     used > 0 ? ", " : "", name);
    }
    free(text);
}

weft_status ucx_open_context(const ucx_module *m, const weft_conf *conf,
                             const sockets_endpoint *bound, uint32_t ranks, ucp_context_h *out,
                             ucx_found *found)
{
    ucp_config_t *config = NULL;
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                               UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                                               UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                 .mt_workers_shared = 0,
                                 .estimated_num_eps = ranks};
    ucs_status_t why = m->api.config_read(NULL, NULL, &config);
    if (why != UCS_OK)
        return sockets_fail(m->host, WEFT_USAGE, "UCX cannot read its settings (UCX_...): %s",
                            m->api.status_string(why));
    /* Endpoints report dead peers, and UCX uses only transports for them that can. Its shared
     * memory can where it is told to. */
    (void)m->api.config_modify(config, "MM_ERROR_HANDLING", "y");
    weft_status st = configure(m, conf, bound, config);
    if (st == WEFT_OK)
        why = m->api.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, out);
    m->api.config_release(config);
    if (st == WEFT_OK && why != UCS_OK)
        st = sockets_fail(m->host, WEFT_ABSENT,
                          "UCX has no transport here that [comm.ucx] tls and devices, UCX_TLS and "
                          "UCX_NET_DEVICES allow: %s; `ucx_info -d` lists what there is",
                          m->api.status_string(why));
    if (st == WEFT_OK)
        take_names(m, *out, found);
    return st;
}
