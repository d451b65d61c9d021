/* plugins/sink/prometheus: the last known values of a job, for Prometheus to scrape.
 *
 * metrics() copies the values under a lock; a thread of the sink answers GET /metrics with them as
 * OpenMetrics 1.0. So the loop of the job never waits for a scraper. Names get the prefix weft_,
 * and what OpenMetrics does not permit in a name becomes "_": acme.load is weft_acme_load. A value
 * that the newest step has not, as valid_loss, stays as it was last measured.
 *
 * It listens on the loopback interface unless `address` says otherwise. Whatever clients send, they
 * take no memory and no time of anybody else: there are a few places, each with buffers of fixed
 * size and a deadline; when all are taken, the oldest client goes. A library would need such limits
 * too, and would bring more code than the one page that is served here.
 *
 *   [log]
 *   sinks = jsonl, prometheus
 *   [sink.prometheus]
 *   port = 9100
 */
#define _GNU_SOURCE
#include <weft/sink.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 8
#define REQUEST 4096
#define HEAD 256
#define PAGE (512u << 10)
#define DEADLINE_MS 3000 /* from the connection to the last byte of the answer */

typedef struct client {
    int fd; /* -1: free */
    uint64_t since;
    size_t got, sent, end; /* of the request; of the answer, once `end` is not 0 */
    char request[REQUEST + 1], answer[HEAD + PAGE];
} client;

#define VALUES 512 /* names of a run; further ones are left out */
#define EVENTS 16

typedef struct value {
    char name[80], unit[32];
    double value;
    uint32_t kind;
} value;

typedef struct values {
    uint64_t step;
    uint32_t n, nevents;
    value at[VALUES], events[EVENTS]; /* an event's value is how often it happened */
} values;

struct weft_sink {
    const weft_host *host;
    int fd; /* listens; -1: not open */
    _Atomic int stop;
    pthread_t thread;
    client clients[CLIENTS];
    pthread_mutex_t lock;
    values now;       /* under the lock */
    values shown;     /* the thread's copy */
    char job[256];    /* as the value of a label */
    char path[4096];  /* OUT/prometheus.address; "": not written */
    struct stat file; /* that it was when it was written */
};

/* --- an HTTP server of one page --- */

static size_t render(weft_sink *s, char *out, size_t room);

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void drop(client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* The body is in its place, behind the room for the head; `body` 0: the status is the body. */
static void answer(client *c, const char *status, size_t body)
{
    char head[HEAD];
    const char *type = body ? "application/openmetrics-text; version=1.0.0" : "text/plain";
    if (!body)
        body = (size_t)snprintf(c->answer + HEAD, PAGE, "%s\n", status);
    const int n = snprintf(head, sizeof head,
                           "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\n"
                           "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                           status, type, body);
    c->sent = HEAD - (size_t)n;
    memcpy(c->answer + c->sent, head, (size_t)n);
    c->end = HEAD + body;
}

/* The head of the request is complete: METHOD SP PATH SP HTTP/1.x CR LF ... */
static void serve(weft_sink *s, client *c)
{
    char method[8], path[64];
    int end = 0;
    if (sscanf(c->request, "%7[A-Z] %63[!-~] HTTP/1.%*1[01]%n", method, path, &end) != 2 || !end ||
        !strchr("\r\n", c->request[end]))
        answer(c, "400 Bad Request", 0);
    else if (strcmp(method, "GET"))
        answer(c, "405 Method Not Allowed", 0);
    else if (strcmp(path, "/metrics") && strncmp(path, "/metrics?", 9))
        answer(c, "404 Not Found", 0);
    else
        answer(c, "200 OK", render(s, c->answer + HEAD, PAGE));
}

static void take(weft_sink *s, client *c)
{
    const ssize_t n = recv(c->fd, c->request + c->got, REQUEST - c->got, 0);
    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
        drop(c);
    if (n <= 0)
        return;
    c->got += (size_t)n;
    c->request[c->got] = 0;
    if (strlen(c->request) != c->got) /* it has a zero byte */
        answer(c, "400 Bad Request", 0);
    else if (strstr(c->request, "\r\n\r\n"))
        serve(s, c);
    else if (c->got == REQUEST)
        answer(c, "431 Request Header Fields Too Large", 0);
}

static void give(client *c)
{
    const ssize_t n = send(c->fd, c->answer + c->sent, c->end - c->sent, MSG_NOSIGNAL);
    c->sent += n > 0 ? (size_t)n : 0;
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || c->sent == c->end)
        drop(c);
}

static void let_in(weft_sink *s)
{
    client *c = &s->clients[0];
    const int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    for (int i = 1; i < CLIENTS && c->fd >= 0; i++)
        if (s->clients[i].fd < 0 || s->clients[i].since < c->since)
            c = &s->clients[i];
    drop(c);
    c->fd = fd;
    c->since = now_ms();
    c->got = c->sent = c->end = 0;
}

static void *run(void *arg)
{
    weft_sink *s = arg;
    for (;;) {
        struct pollfd p[CLIENTS + 1];
        for (int i = 0; i < CLIENTS; i++)
            p[i] = (struct pollfd){s->clients[i].fd, s->clients[i].end ? POLLOUT : POLLIN, 0};
        p[CLIENTS] = (struct pollfd){s->fd, POLLIN, 0};
        poll(p, CLIENTS + 1, 200);
        if (s->stop)
            return NULL;
        for (int i = 0; i < CLIENTS; i++) {
            client *c = &s->clients[i];
            if (c->fd >= 0 && p[i].revents && !c->end)
                take(s, c);
            if (c->fd >= 0 && c->end)
                give(c);
            if (c->fd >= 0 && now_ms() - c->since > DEADLINE_MS)
                drop(c);
        }
        if (p[CLIENTS].revents)
            let_in(s);
    }
}

/* ADDRESS:PORT of a socket, an IPv6 address in brackets. */
static void name_of(int fd, char bound[80])
{
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    char host[64] = "?", port[8] = "?";
    if (!getsockname(fd, (struct sockaddr *)&a, &size))
        getnameinfo((struct sockaddr *)&a, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(bound, 80, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* A socket that listens there; -1: WEFT_USAGE in *st where the address is wrong, else WEFT_IO. */
static int bind_to(const char *address, unsigned port, char why[256], weft_status *st)
{
    const struct addrinfo want = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                  .ai_socktype = SOCK_STREAM};
    struct addrinfo *a = NULL;
    char number[12], plain[64];
    const size_t n = strlen(address);
    const int enclosed = *address == '[' && address[n - 1] == ']';
    snprintf(number, sizeof number, "%u", port);
    snprintf(plain, sizeof plain, "%.*s", (int)(n - 2u * (size_t)enclosed), address + enclosed);
    *st = WEFT_USAGE;
    snprintf(why, 256, "address = '%.60s' is not an IPv4 or IPv6 address, such as 127.0.0.1",
             address);
    if (getaddrinfo(plain, number, &want, &a))
        return -1;
    const int on = 1;
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const int bad = fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 16);
    snprintf(why, 256, "cannot listen at port %u of %.60s: %s", port, address, strerror(errno));
    freeaddrinfo(a);
    if (!bad)
        return fd;
    *st = WEFT_IO;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int start(weft_sink *s)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the job's */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&s->thread, NULL, run, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

/* --- the page --- */

/* The value of a label: backslash, quote and line end are escaped. */
static void escape(const char *text, char *out, size_t room)
{
    size_t n = 0;
    for (; *text && n + 3 < room; text++) {
        if (*text == '\\' || *text == '"' || *text == '\n')
            out[n++] = '\\';
        out[n++] = *text == '\n' ? 'n' : *text;
    }
    out[n] = 0;
}

static void put_value(FILE *f, const char *job, const value *v)
{
    const int counts = v->kind == WEFT_METRIC_COUNTER;
    char number[40];
    snprintf(number, sizeof number, "%.17g", v->value);
    if (!isfinite(v->value))
        snprintf(number, sizeof number, "%s",
                 isnan(v->value) ? "NaN"
                 : v->value > 0  ? "+Inf"
                                 : "-Inf");
    fprintf(f, "# TYPE %s %s\n# HELP %s unit: %s\n%s%s{job=\"%s\"} %s\n", v->name,
            counts ? "counter" : "gauge", v->name, *v->unit ? v->unit : "none", v->name,
            counts ? "_total" : "", job, number);
}

static size_t render(weft_sink *s, char *out, size_t room)
{
    const values *v = &s->shown;
    FILE *f = fmemopen(out, room, "w");
    if (!f)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->shown = s->now;
    pthread_mutex_unlock(&s->lock);
    const value step = {"weft_step", "", (double)v->step, WEFT_METRIC_GAUGE};
    put_value(f, s->job, &step);
    for (uint32_t i = 0; i < v->n; i++)
        put_value(f, s->job, &v->at[i]);
    fputs("# TYPE weft_events counter\n# HELP weft_events events of the run\n", f);
    for (uint32_t i = 0; i < v->nevents; i++)
        fprintf(f, "weft_events_total{job=\"%s\",event=\"%s\"} %.0f\n", s->job, v->events[i].name,
                v->events[i].value);
    fputs("# EOF\n", f);
    const long n = ftell(f);
    return fclose(f) || n < 0 ? 0 : (size_t)n;
}

/* --- the sink --- */

/* The address, for who did not choose the port: in the log, and in OUT. */
static void tell(weft_sink *s, const char *out, const char *bound)
{
    const weft_host *host = s->host;
    char line[256];
    snprintf(line, sizeof line, "metrics are served at http://%s/metrics", bound);
    (host->log)(host->ctx, WEFT_LOG_INFO, line);
    const int n = snprintf(s->path, sizeof s->path, "%s/prometheus.address", out);
    if (n < 0 || n >= (int)sizeof s->path)
        *s->path = 0;
    FILE *f = fopen(s->path, "we");
    const int bad = !f || fstat(fileno(f), &s->file) || fprintf(f, "%s\n", bound) < 0;
    if ((f && fclose(f)) || bad) {
        snprintf(line, sizeof line, "OUT/prometheus.address cannot be written: %s",
                 strerror(errno));
        (host->log)(host->ctx, WEFT_LOG_WARN, line);
    }
}

/* Nobody listens at the address any more. OUT may lead to the folder of another job by now. */
static void remove_address(const weft_sink *s)
{
    struct stat there;
    if (*s->path && !stat(s->path, &there) && there.st_dev == s->file.st_dev &&
        there.st_ino == s->file.st_ino)
        unlink(s->path);
}

static void prometheus_close(weft_sink *s)
{
    if (!s)
        return;
    if (s->fd >= 0) {
        s->stop = 1;
        shutdown(s->fd, SHUT_RDWR); /* wakes the thread */
        pthread_join(s->thread, NULL);
        close(s->fd);
    }
    remove_address(s);
    for (int i = 0; i < CLIENTS; i++)
        drop(&s->clients[i]);
    pthread_mutex_destroy(&s->lock);
    (s->host->free)(s->host->ctx, s);
}

static weft_status prometheus_open(void *module, const weft_sink_args *args, weft_sink **out)
{
    const weft_host *host = (const weft_host *)module;
    const weft_conf *conf = args->conf;
    char bound[80], why[256];
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_sink *s = (weft_sink *)weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    s->host = host;
    s->now.step = args->after;
    for (int i = 0; i < CLIENTS; i++)
        s->clients[i].fd = -1;
    escape(args->job, s->job, sizeof s->job);
    pthread_mutex_init(&s->lock, NULL);
    s->fd = bind_to(conf->text(conf->ctx, "address"), (unsigned)conf->integer(conf->ctx, "port"),
                    why, &st);
    if (s->fd >= 0 && (st = start(s) ? WEFT_OK : WEFT_IO) != WEFT_OK) {
        close(s->fd);
        s->fd = -1;
        snprintf(why, sizeof why, "there is no thread for a server");
    }
    if (st == WEFT_OK) {
        name_of(s->fd, bound);
        tell(s, args->out, bound);
    } else {
        st = (host->fail)(host->ctx, st, why);
    }
    if (st != WEFT_OK)
        prometheus_close(s);
    else
        *out = s;
    return st;
}

/* The value of this name, added if it is new; NULL: there is no room. Names are made legal:
 * [a-zA-Z_:][a-zA-Z0-9_:]*. */
static value *entry(value *at, uint32_t *n, uint32_t max, const char *prefix, const char *given)
{
    char name[sizeof at->name];
    uint32_t i = 0;
    snprintf(name, sizeof name, "%s%s", prefix, given);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) || (c == name && isdigit((unsigned char)*c)))
            *c = '_';
    while (i < *n && strcmp(at[i].name, name))
        i++;
    if (i == max)
        return NULL;
    *n += i == *n;
    snprintf(at[i].name, sizeof at[i].name, "%s", name);
    return &at[i];
}

static weft_status prometheus_metrics(weft_sink *s, uint64_t step, const weft_metric *in,
                                      uint32_t n, uint32_t flags)
{
    if (flags)
        return (s->host->fail)(s->host->ctx, WEFT_UNSUPPORTED, "metrics() with unknown flags");
    pthread_mutex_lock(&s->lock);
    s->now.step = step;
    for (uint32_t i = 0; i < n; i++) {
        value *v = entry(s->now.at, &s->now.n, VALUES, "weft_", in[i].name);
        if (!v)
            continue;
        snprintf(v->unit, sizeof v->unit, "%s", in[i].unit);
        v->value = in[i].value;
        v->kind = in[i].kind;
    }
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

static weft_status prometheus_event(weft_sink *s, const weft_event *e)
{
    pthread_mutex_lock(&s->lock);
    value *v = entry(s->now.events, &s->now.nevents, EVENTS, "", e->name);
    if (v)
        v->value++;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_option address = {.struct_size = sizeof address,
                                    .type = WEFT_OPT_STRING,
                                    .key = "address",
                                    .dflt = "127.0.0.1",
                                    .help = "the address that is listened at; 0.0.0.0 or ::, all, "
                                            "shows the metrics to whoever reaches this host"};
static const weft_option port = {.struct_size = sizeof port,
                                 .type = WEFT_OPT_INT,
                                 .key = "port",
                                 .dflt = "0",
                                 .min = 0,
                                 .max = 65535,
                                 .help = "the port; 0: any that is free, see "
                                         "OUT/prometheus.address"};
static const weft_option *const options[] = {&address, &port, NULL};
static const weft_sink_table table = {
    sizeof table, 0, prometheus_open, prometheus_metrics, prometheus_event, prometheus_close};
static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.sink/1",
    .name = "prometheus",
    .help = "the last value of every metric over HTTP, as OpenMetrics",
    .options = options,
    .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.prometheus", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
