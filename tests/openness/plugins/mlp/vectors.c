/* acme.vectors: a data source for vectors with classes, as a third party would write it.
 *
 * A file begins with a line of text, at most 1,023 bytes, that names the classes and the fields:
 *
 *   vectors 11 pixels:row=4,column=6 weights:place=5
 *
 * Behind it are the samples: the numbers of each field as little-endian fp32, and the class as a
 * 32-bit number. Training sample n is the one that a hash of (seed, n) picks; the validation set is
 * the file in its order. open() reads the line and 64 samples for the identity; read() reads each
 * sample with one pread(). */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/data.h>

#define LINE 1024u
#define FIELDS 8u
#define MAX_BYTES ((uint64_t)1 << 30) /* of a sample */

struct weft_dataset {
    const weft_host *host;
    int fd, train;
    uint64_t seed, begin, samples, bytes; /* the first sample's place; their number and size */
    uint32_t vocab, nfields;              /* the last field is "targets" */
    weft_field fields[FIELDS + 1];
    unsigned char *sample; /* [bytes] */
    char path[512], line[LINE], identity[LINE + 64];
};

__attribute__((format(printf, 3, 4))) static weft_status
failed(const weft_dataset *d, weft_status code, const char *format, ...)
{
    char text[768], all[1400];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    snprintf(all, sizeof all, "data.%s: %s: %s", d->train ? "train" : "valid", d->path, text);
    return (d->host->fail)(d->host->ctx, code, all);
}

/* --- the line --- */

static int is_name(const char *s)
{
    const size_t n = strlen(s);
    return n && n < 32 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* A whole number from 1 to `max`; 0: the text is none. */
static uint64_t number(const char *s, uint64_t max)
{
    char *end;
    errno = 0;
    const unsigned long long n = *s >= '1' && *s <= '9' ? strtoull(s, &end, 10) : 0;
    return n && !errno && !*end && n <= max ? n : 0;
}

/* "pixels:row=4,column=6", which is cut into its words. */
static weft_status read_field(weft_dataset *d, char *word)
{
    weft_field *f = &d->fields[d->nfields];
    uint64_t n = 4;
    if (d->nfields == FIELDS)
        return failed(d, WEFT_DATA, "the first line has more than %u fields", FIELDS);
    *f = (weft_field){.help = "numbers of the file", .dtype = WEFT_F32};
    char *axes = strchr(word, ':'), *rest;
    if (axes)
        *axes++ = 0;
    f->name = word;
    int good = is_name(word);
    for (char *a = axes ? strtok_r(axes, ",", &rest) : NULL; a; a = strtok_r(NULL, ",", &rest)) {
        char *size = strchr(a, '=');
        if (size)
            *size++ = 0;
        const uint64_t is = size ? number(size, MAX_BYTES) : 0;
        good = good && is && is_name(a) && f->rank < WEFT_MAX_AXES - 1;
        if (!good)
            break;
        f->axes[f->rank++] = (weft_axis){a, (int64_t)is};
        n = n > MAX_BYTES / is ? MAX_BYTES : n * is;
    }
    d->bytes += n;
    d->nfields++;
    return good && (!axes || f->rank)
               ? WEFT_OK
               : failed(d, WEFT_DATA,
                        "the field '%.64s' of the first line is not NAME:AXIS=SIZE,...", word);
}

static weft_status read_line(weft_dataset *d, char *words)
{
    char *rest, *word = strtok_r(words, " ", &rest);
    if (!word || strcmp(word, "vectors"))
        return failed(d, WEFT_DATA,
                      "the file does not begin with the line 'vectors CLASSES "
                      "FIELD...'; name a file of vectors");
    word = strtok_r(NULL, " ", &rest);
    d->vocab = word ? (uint32_t)number(word, 1u << 30) : 0;
    if (!d->vocab)
        return failed(d, WEFT_DATA, "the first line gives no number of classes, 1 to %u", 1u << 30);
    weft_status st = WEFT_OK;
    while (st == WEFT_OK && (word = strtok_r(NULL, " ", &rest)))
        st = read_field(d, word);
    if (st == WEFT_OK && !d->nfields)
        st = failed(d, WEFT_DATA, "the first line names no field");
    d->bytes += 4;
    if (st == WEFT_OK && d->bytes > MAX_BYTES)
        st = failed(d, WEFT_DATA, "a sample has more than %llu bytes",
                    (unsigned long long)MAX_BYTES);
    d->fields[d->nfields++] =
        (weft_field){.name = "targets", .help = "class of the row", .dtype = WEFT_I32};
    return st;
}

static weft_status count_samples(weft_dataset *d, uint64_t size)
{
    if ((size - d->begin) % d->bytes || size == d->begin)
        return failed(d, WEFT_DATA,
                      "%llu bytes follow the first line, which is not a number of samples of %llu "
                      "bytes: the file is empty or truncated",
                      (unsigned long long)(size - d->begin), (unsigned long long)d->bytes);
    d->samples = (size - d->begin) / d->bytes;
    return WEFT_OK;
}

/* --- samples --- */

static weft_status read_at(const weft_dataset *d, void *to, uint64_t bytes, uint64_t at)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n = pread(d->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(d, WEFT_IO, "cannot read byte %llu: %s", (unsigned long long)(at + done),
                          n ? strerror(errno) : "it has ended");
        done += (uint64_t)n;
    }
    return WEFT_OK;
}

/* Number of training sample n in the file: splitmix64 of seed and n. */
static uint64_t place_of(const weft_dataset *d, uint64_t n)
{
    uint64_t z = d->seed * 0xd1342543de82ef95ull + n * 0x9e3779b97f4a7c15ull + 1;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % d->samples;
}

/* One sample, to row `row` of the fields that are wanted. */
static weft_status read_sample(weft_dataset *d, uint64_t number_in_file, void *const *out,
                               uint64_t row)
{
    weft_status st = read_at(d, d->sample, d->bytes, d->begin + number_in_file * d->bytes);
    const unsigned char *from = d->sample;
    for (uint32_t i = 0; st == WEFT_OK && i < d->nfields; i++) {
        uint64_t n = 1;
        for (uint32_t k = 0; k < d->fields[i].rank; k++)
            n *= (uint64_t)d->fields[i].axes[k].size;
        for (uint64_t e = 0; st == WEFT_OK && e < n; e++) {
            uint32_t word;
            float value;
            memcpy(&word, from + 4 * e, 4);
            memcpy(&value, &word, 4);
            if (d->fields[i].dtype == WEFT_F32 ? !isfinite(value) : word >= d->vocab)
                st = failed(d, WEFT_DATA,
                            "sample %llu: a number of '%s' is not finite, or the "
                            "class is not below %u",
                            (unsigned long long)number_in_file, d->fields[i].name, d->vocab);
        }
        if (st == WEFT_OK && out[i])
            memcpy((char *)out[i] + row * 4 * n, from, 4 * n);
        from += 4 * n;
    }
    return st;
}

static weft_status vectors_read(weft_dataset *d, const weft_read_args *args)
{
    weft_read_args a = {0};
    weft_status st = weft_check_args(d->host, args, sizeof a, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && (a.nfields != d->nfields || a.reserved))
        st = weft_refuse_unknown(d->host);
    if (st == WEFT_OK && a.sequence != 1)
        st = failed(d, WEFT_USAGE, "a sample of vectors has 1 row, and %llu are asked for",
                    (unsigned long long)a.sequence);
    if (st == WEFT_OK && !d->train && (a.count > d->samples || a.first > d->samples - a.count))
        st = failed(d, WEFT_USAGE, "samples behind number %llu are asked for",
                    (unsigned long long)d->samples);
    for (uint64_t i = 0; st == WEFT_OK && i < a.count; i++)
        st = read_sample(d, d->train ? place_of(d, a.first + i) : a.first + i, a.out, i);
    return st;
}

/* --- the set --- */

static void vectors_close(weft_dataset *d)
{
    if (!d)
        return;
    if (d->fd >= 0)
        close(d->fd);
    (d->host->free)(d->host->ctx, d->sample);
    (d->host->free)(d->host->ctx, d);
}

/* The line, and a digest of it and of up to 64 samples that are spread over the file. */
static weft_status identify(weft_dataset *d, const char *line)
{
    uint64_t h = 1469598103934665603ull;
    const uint64_t step = d->samples / 64 + 1;
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; st == WEFT_OK && i < d->samples; i += step) {
        st = read_at(d, d->sample, d->bytes, d->begin + i * d->bytes);
        for (uint64_t k = 0; st == WEFT_OK && k < d->bytes; k++)
            h = (h ^ d->sample[k]) * 1099511628211ull;
    }
    snprintf(d->identity, sizeof d->identity, "%s, %llu samples, digest %016llx", line,
             (unsigned long long)d->samples, (unsigned long long)h);
    return st;
}

static weft_status begin(weft_dataset *d)
{
    struct stat s;
    char line[LINE];
    d->fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (d->fd < 0 || fstat(d->fd, &s))
        return failed(d, errno == ENOENT ? WEFT_USAGE : WEFT_IO, "cannot read it: %s",
                      strerror(errno));
    if (!S_ISREG(s.st_mode))
        return failed(d, WEFT_USAGE, "it is not a file");
    const uint64_t size = (uint64_t)s.st_size, n = size < LINE - 1 ? size : LINE - 1;
    weft_status st = read_at(d, d->line, n, 0);
    char *end = st == WEFT_OK ? (char *)memchr(d->line, '\n', n) : NULL;
    if (st == WEFT_OK && (!end || memchr(d->line, 0, (size_t)(end - d->line))))
        st = failed(d, WEFT_DATA, "it has no first line of text, of at most %u bytes", LINE - 1);
    if (st != WEFT_OK)
        return st;
    *end = 0;
    d->begin = (uint64_t)(end - d->line) + 1;
    snprintf(line, sizeof line, "%s", d->line);
    st = read_line(d, d->line);
    if (st == WEFT_OK)
        st = count_samples(d, size);
    d->sample = (unsigned char *)weft_new(d->host, d->bytes, &st);
    return st == WEFT_OK ? identify(d, line) : st;
}

static weft_status vectors_open(void *module, const weft_data_args *args, weft_dataset **out)
{
    const weft_host *host = (const weft_host *)module;
    weft_data_args a = {0};
    weft_status st = weft_check_args(host, args, sizeof a, 0);
    weft_take(&a, sizeof a, args);
    if (st == WEFT_OK && a.use != WEFT_DATA_TRAIN && a.use != WEFT_DATA_VALID)
        st = weft_refuse_unknown(host);
    if (st != WEFT_OK)
        return st;
    const int is_train = a.use == WEFT_DATA_TRAIN;
    const char *path = a.conf->text(a.conf->ctx, is_train ? "train" : "valid");
    *out = NULL;
    if (!*path)
        return WEFT_OK;
    weft_dataset *d = (weft_dataset *)weft_new(host, sizeof *d, &st);
    if (!d)
        return st;
    d->host = host;
    d->fd = -1;
    d->train = is_train;
    d->seed = a.seed;
    const int fits = snprintf(d->path, sizeof d->path, "%s", path) < (int)sizeof d->path;
    st = fits ? begin(d)
              : failed(d, WEFT_USAGE, "the path has more than %zu bytes", sizeof d->path - 1);
    if (st != WEFT_OK)
        vectors_close(d);
    else
        *out = d;
    return st;
}

static weft_status vectors_info(weft_dataset *d, uint64_t sequence, weft_data_info *out)
{
    const weft_data_info info = {.struct_size = sizeof info,
                                 .samples = d->samples,
                                 .rows = 1,
                                 .vocab = d->vocab,
                                 .nfields = d->nfields,
                                 .fields = d->fields,
                                 .identity = d->identity};
    if (sequence > 1)
        return failed(d, WEFT_USAGE, "a sample of vectors has 1 row, and %llu are asked for",
                      (unsigned long long)sequence);
    weft_give(out, &info);
    return WEFT_OK;
}

/* --- the plugin --- */

static const weft_option train = {.struct_size = sizeof train,
                                  .type = WEFT_OPT_STRING,
                                  .key = "train",
                                  .dflt = "",
                                  .help = "file of vectors to learn from"};
static const weft_option valid = {.struct_size = sizeof valid,
                                  .type = WEFT_OPT_STRING,
                                  .key = "valid",
                                  .dflt = "",
                                  .help = "file of vectors to evaluate on; empty: no evaluation"};
static const weft_option *const options[] = {&train, &valid, NULL};

static const weft_data_table table = {.struct_size = sizeof table,
                                      .open = vectors_open,
                                      .close = vectors_close,
                                      .info = vectors_info,
                                      .read = vectors_read};
static const weft_component component = {.struct_size = sizeof component,
                                         .iface = "weft.data/1",
                                         .name = "acme.vectors",
                                         .help = "vectors with classes, of a file of its own form",
                                         .options = options,
                                         .table = &table};
static const weft_component *const components[] = {&component, NULL};
WEFT_PLUGIN("com.acme.vectors", "1.0", "MIT", components, weft_open_host, NULL);
