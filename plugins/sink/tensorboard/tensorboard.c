/* plugins/sink/tensorboard: an event file for TensorBoard, with a scalar for each metric.
 *
 * The file is OUT/events.out.tfevents.SECONDS.HOST.PID: TFRecords, each a length, its checksum,
 * bytes and their checksum (CRC32C, masked). The bytes are the message Event of TensorFlow's
 * event.proto, in the encoding of Protocol Buffers, of which three forms are enough: varint, 32 and
 * 64 bits, and length-delimited. A dot of a name becomes "/", by which TensorBoard makes groups.
 *
 * Each start of a run writes a file of its own, which begins with a SessionLog START of its first
 * step: TensorBoard then drops what an earlier file has of this step and later ones. A thread
 * writes the records (output.h); where that fails, as on a full disk, the record is left out, and
 * the first one is logged. A value is a float there, so it has 7 digits. */
#define _GNU_SOURCE
#include <weft/sink.h>

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORD (128u << 10) /* the longest; METRICS values of a step have room */
#define METRICS 1000u
#define NAME 80u  /* of a value; the rest is cut off */
#define FRAME 12u /* before the bytes of a record */

struct weft_sink {
    const weft_host *host;
    output *out;
    uint32_t crc[256];
    size_t n; /* bytes of the record */
    uint8_t record[FRAME + RECORD + 4];
};

/* --- Protocol Buffers --- */

#define VARINT 0u
#define FIXED64 1u
#define BYTES 2u
#define FIXED32 5u

/* Fields of Event, of Summary, of Summary.Value, of SessionLog. */
#define EVENT_WALL_TIME 1u
#define EVENT_STEP 2u
#define EVENT_FILE_VERSION 3u
#define EVENT_SUMMARY 5u
#define EVENT_SESSION_LOG 7u
#define SUMMARY_VALUE 1u
#define VALUE_TAG 1u
#define VALUE_SIMPLE 2u
#define SESSION_STATUS 1u
#define SESSION_START 1u

static void put(weft_sink *s, const void *bytes, size_t n)
{
    memcpy(s->record + FRAME + s->n, bytes, n);
    s->n += n;
}

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    while (v >>= 7)
        n++;
    return n;
}

static void put_varint(weft_sink *s, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        s->record[FRAME + s->n++] = (uint8_t)(v | 128);
    s->record[FRAME + s->n++] = (uint8_t)v;
}

static void put_key(weft_sink *s, uint32_t field, uint32_t form)
{
    put_varint(s, field << 3 | form);
}

static void put_little(weft_sink *s, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->record[FRAME + s->n++] = (uint8_t)(v >> 8 * i);
}

static void put_bytes(weft_sink *s, uint32_t field, const void *bytes, size_t n)
{
    put_key(s, field, BYTES);
    put_varint(s, n);
    put(s, bytes, n);
}

/* --- records --- */

static void make_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0); /* Castagnoli, reflected */
        table[i] = c;
    }
}

static uint32_t masked_crc(const weft_sink *s, const uint8_t *p, size_t n)
{
    uint32_t c = ~0u;
    for (size_t i = 0; i < n; i++)
        c = c >> 8 ^ s->crc[(c ^ p[i]) & 255];
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void write_little(uint8_t *to, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(v >> 8 * i);
}

/* The record is complete; returns its bytes, which are in s->record. */
static size_t finish(weft_sink *s)
{
    write_little(s->record, s->n, 8);
    write_little(s->record + 8, masked_crc(s, s->record, 8), 4);
    write_little(s->record + FRAME + s->n, masked_crc(s, s->record + FRAME, s->n), 4);
    return FRAME + s->n + 4;
}

/* A record of this step begins. */
static void begin(weft_sink *s, uint64_t step)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const double now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    uint64_t bits;
    memcpy(&bits, &now, sizeof bits);
    s->n = 0;
    put_key(s, EVENT_WALL_TIME, FIXED64);
    put_little(s, bits, 8);
    put_key(s, EVENT_STEP, VARINT);
    put_varint(s, step);
}

/* --- the sink --- */

static void tensorboard_close(weft_sink *s)
{
    if (!s)
        return;
    output_close(s->out);
    (s->host->free)(s->host->ctx, s);
}

/* The first records: the version, and which steps of earlier files are void. Returns their end; -1:
 * they could not be written. */
static off_t write_head(weft_sink *s, int fd, uint64_t after)
{
    static const char version[] = "brain.Event:2";
    begin(s, 0);
    put_bytes(s, EVENT_FILE_VERSION, version, sizeof version - 1);
    const size_t first = finish(s);
    if (write(fd, s->record, first) != (ssize_t)first)
        return -1;
    begin(s, after + 1);
    put_key(s, EVENT_SESSION_LOG, BYTES);
    put_varint(s, 2);
    put_key(s, SESSION_STATUS, VARINT);
    put_varint(s, SESSION_START);
    const size_t second = finish(s);
    return write(fd, s->record, second) == (ssize_t)second ? (off_t)(first + second) : -1;
}

static weft_status open_file(weft_sink *s, const weft_sink_args *args)
{
    char path[4096], why[4400], name[256] = "host";
    struct timespec t;
    weft_status st = WEFT_OK;
    clock_gettime(CLOCK_REALTIME, &t);
    gethostname(name, sizeof name - 1);
    snprintf(path, sizeof path, "%s/events.out.tfevents.%lld.%s.%ld", args->out,
             (long long)t.tv_sec, name, (long)getpid());
    errno = ENOSPC; /* a short write() has none */
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const off_t end = fd < 0 ? -1 : write_head(s, fd, args->after);
    if (end >= 0) {
        s->out = output_open(s->host, fd, end, "the event file of TensorBoard", "steps", &st);
        return st;
    }
    snprintf(why, sizeof why, "%s cannot be written: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return (s->host->fail)(s->host->ctx, WEFT_IO, why);
}

static weft_status tensorboard_open(void *module, const weft_sink_args *args, weft_sink **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_status st = weft_check_args(host, args, sizeof *args, 0);
    weft_sink *s = (weft_sink *)weft_new(host, sizeof *s, &st);
    if (!s)
        return st;
    s->host = host;
    make_table(s->crc);
    st = open_file(s, args);
    if (st == WEFT_OK)
        *out = s;
    else
        tensorboard_close(s);
    return st;
}

static void put_value(weft_sink *s, const weft_metric *m)
{
    char tag[NAME];
    const size_t n = strnlen(m->name, sizeof tag);
    const float value = (float)m->value;
    uint32_t bits;
    for (size_t i = 0; i < n; i++)
        tag[i] = m->name[i] == '.' ? '/' : m->name[i];
    memcpy(&bits, &value, sizeof bits);
    put_key(s, SUMMARY_VALUE, BYTES);
    put_varint(s, 1 + varint_size(n) + n + 5);
    put_bytes(s, VALUE_TAG, tag, n);
    put_key(s, VALUE_SIMPLE, FIXED32);
    put_little(s, bits, 4);
}

/* The bytes that put_value() adds. */
static size_t value_size(const weft_metric *m)
{
    const size_t n = strnlen(m->name, NAME), inner = 1 + varint_size(n) + n + 5;
    return 1 + varint_size(inner) + inner;
}

static weft_status tensorboard_metrics(weft_sink *s, uint64_t step, const weft_metric *values,
                                       uint32_t n, uint32_t flags)
{
    size_t bytes = 0;
    if (flags)
        return (s->host->fail)(s->host->ctx, WEFT_UNSUPPORTED, "metrics() with unknown flags");
    n = n < METRICS ? n : METRICS;
    for (uint32_t i = 0; i < n; i++)
        bytes += value_size(&values[i]);
    begin(s, step);
    put_key(s, EVENT_SUMMARY, BYTES);
    put_varint(s, bytes);
    for (uint32_t i = 0; i < n; i++)
        put_value(s, &values[i]);
    const size_t record = finish(s);
    output_add(s->out, step, s->record, record);
    return WEFT_OK;
}

static weft_status tensorboard_event(weft_sink *s, const weft_event *e)
{
    weft_event own = {0};
    weft_take(&own, sizeof own, e);
    if (!strcmp(own.name, "saving"))
        output_settle(s->out);
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_option *const options[] = {NULL};

static const weft_sink_table table = {
    .struct_size = sizeof table,
    .open = tensorboard_open,
    .metrics = tensorboard_metrics,
    .event = tensorboard_event,
    .close = tensorboard_close,
};

static const weft_component component = {
    .struct_size = sizeof component,
    .iface = "weft.sink/1",
    .name = "tensorboard",
    .help = "OUT/events.out.tfevents.*: the metrics of each step for TensorBoard",
    .options = options,
    .table = &table,
};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("weft.tensorboard", "0.1.0", "Apache-2.0", components, weft_open_host, NULL);
