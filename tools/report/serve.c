/* report/serve.c: see serve.h. libmicrohttpd answers from one thread of its own, which alone uses
 * the report then. */
#define _GNU_SOURCE
#include "report/serve.h"

#include "base/err.h"
#include "base/log.h"
#include "base/number/hex.h"
#include "cli/cli.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define CONNECTIONS 64u
#define TIMEOUT_S 5u
#define TOKEN_BYTES 16u

/* libmicrohttpd, opened when a page is served: it needs eleven libraries more, and if weft were
 * linked with them, each of its starts would search them for every symbol of every plugin. */
#define NAMED "libmicrohttpd.so.12"

#define CALLS(X)                                                                                   \
    X(create_response_from_buffer)                                                                 \
    X(add_response_header)                                                                         \
    X(queue_response)                                                                              \
    X(destroy_response) X(lookup_connection_value) X(start_daemon) X(get_daemon_info) X(stop_daemon)

#define MEMBER(name) __typeof__(MHD_##name) *name;

static struct {
    CALLS(MEMBER)
} mhd;

#define SYMBOL(name) {"MHD_" #name, (void **)&mhd.name},

static weft_status open_library(void)
{
    const struct {
        const char *name;
        void **to;
    } symbols[] = {CALLS(SYMBOL)};
    void *library = dlopen(NAMED, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_fail(WEFT_ABSENT,
                        "--http needs " NAMED ", which this machine does not have (%s); install "
                        "the package that has it, such as libmicrohttpd12",
                        dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *symbols[i].to = dlsym(library, symbols[i].name);
        if (!*symbols[i].to)
            return err_fail(WEFT_ABSENT, "the " NAMED " of this machine has no %s",
                            symbols[i].name);
    }
    return WEFT_OK;
}

typedef struct server {
    report *r;
    char token[2 * TOKEN_BYTES + 1], live[128];
} server;

/* --- answers --- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              char *body, size_t n)
{
    struct MHD_Response *x = mhd.create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
    if (!x) {
        free(body);
        return MHD_NO;
    }
    static const char *const headers[][2] = {{"Cache-Control", "no-store"},
                                             {"X-Content-Type-Options", "nosniff"},
                                             {"Referrer-Policy", "no-referrer"},
                                             {"X-Frame-Options", "DENY"}};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        mhd.add_response_header(x, headers[i][0], headers[i][1]);
    mhd.add_response_header(x, "Content-Type", type);
    const enum MHD_Result result = mhd.queue_response(c, status, x);
    mhd.destroy_response(x);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
    char *body = strdup(why);
    return body ? answer(c, status, "text/plain; charset=utf-8", body, strlen(body)) : MHD_NO;
}

/* Takes as long for a token that is nearly right. */
static bool has_token(const server *s, struct MHD_Connection *c)
{
    const char *given = mhd.lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    unsigned char differs = 0;
    if (!given || strlen(given) != strlen(s->token))
        return false;
    for (size_t i = 0; s->token[i]; i++)
        differs |= (unsigned char)(given[i] ^ s->token[i]);
    return !differs;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    server *s = user;
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "this page can only be read\n");
    if (!has_token(s, c))
        return refuse(c, MHD_HTTP_FORBIDDEN,
                      "the token is missing or wrong: use the address that weft watch printed\n");
    const bool as_data = !strcmp(path, "/data.json");
    if (!as_data && strcmp(path, "/"))
        return refuse(c, MHD_HTTP_NOT_FOUND, "there is / and /data.json\n");
    char *body = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&body, &n);
    if (!f)
        return MHD_NO;
    json_t *data = report_json(s->r, s->live);
    if (as_data)
        json_dumpf(data, f, JSON_COMPACT | JSON_REAL_PRECISION(7));
    else
        report_write_page(data, f);
    json_decref(data);
    if (fclose(f)) {
        free(body);
        return MHD_NO;
    }
    return answer(c, MHD_HTTP_OK,
                  as_data ? "application/json; charset=utf-8" : "text/html; charset=utf-8", body,
                  n);
}

/* --- the address --- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)a;
    return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* "127.0.0.1:8080", "[::1]:8080", ":8080" and "8080" of the loopback interface. */
static weft_status find_address(const char *text, struct sockaddr_storage *out, char host[256])
{
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    const bool six = n > 1 && *text == '[' && text[n - 1] == ']';
    snprintf(host, 256, "%.*s", (int)(six ? n - 2 : n), six ? text + 1 : text);
    if (!n)
        snprintf(host, 256, "127.0.0.1");
    struct addrinfo *found,
        hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    uint64_t number;
    const bool lawful = cli_number(port, 0, 65535, &number) && n <= 200 && strcmp(host, "*") &&
                        (six || !strchr(host, ':'));
    const int bad = lawful ? getaddrinfo(host, port, &hints, &found) : EAI_SERVICE;
    if (bad)
        return err_fail(
            WEFT_USAGE, "--http=%s: %s; give ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080",
            text, bad == EAI_SERVICE ? "this is no address and port" : gai_strerror(bad));
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return WEFT_OK;
}

static void make_token(server *s)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        abort(); /* 16 bytes always come whole */
    hex_write(bytes, TOKEN_BYTES, s->token);
    snprintf(s->live, sizeof s->live, "data.json?token=%s", s->token);
}

/* Every address: another machine needs a name of this one. */
static bool is_any(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
}

static weft_status say_where(const server *s, const struct sockaddr *a, const char *host,
                             unsigned port)
{
    char own[256] = "";
    if (is_any(a) && !gethostname(own, sizeof own - 1))
        host = own;
    const bool six = strchr(host, ':');
    if (!is_loopback(a))
        log_line(WEFT_LOG_WARN, "the page goes over the network without encryption: who listens "
                                "there can read it, and its token");
    printf("http://%s%s%s:%u/?token=%s\n", six ? "[" : "", host, six ? "]" : "", port, s->token);
    return fflush(stdout) ? err_fail_errno(WEFT_IO, "standard output cannot be written") : WEFT_OK;
}

weft_status report_serve(report *r, const char *address)
{
    server s = {.r = r};
    struct sockaddr_storage at = {0};
    char host[256];
    sigset_t ends;
    int number;
    weft_status st = find_address(address ? address : "127.0.0.1:0", &at, host);
    if (st == WEFT_OK)
        st = open_library();
    if (st != WEFT_OK)
        return st;
    make_token(&s);
    cli_ending_signals(&ends);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* or the server's thread would take them */
    signal(SIGPIPE, SIG_IGN);
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD;
    if (at.ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    struct MHD_Daemon *d = mhd.start_daemon(
        flags, 0, NULL, NULL, handle, &s, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_END);
    if (!d)
        return err_fail_errno(WEFT_USAGE, "the page cannot be served at %s",
                              address ? address : "the loopback interface");
    const union MHD_DaemonInfo *info = mhd.get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    st = say_where(&s, (struct sockaddr *)&at, host, info ? info->port : 0);
    if (st == WEFT_OK)
        sigwait(&ends, &number);
    mhd.stop_daemon(d);
    return st;
}
