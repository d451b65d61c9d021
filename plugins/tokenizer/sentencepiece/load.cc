/* load.cc: reads a model; see model.h. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__clang__)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

namespace
{

constexpr uint64_t max_bytes = 256u << 20, max_ids = 1u << 24, max_token = 1024;
constexpr rlim_t max_seconds = 60; /* of a processor */
constexpr bool sanitized = SANITIZED;
const char space[] = "\xe2\x96\x81"; /* U+2581, which stands for a space in pieces */
const char probe[] =
    "The loom's 12 threads,  \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x99\x82\n\xff\xfe a";

weft_status read_file(const weft_tokenizer *t, std::string *out)
{
    struct stat info;
    const int fd = open(t->path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return model_fail(t, WEFT_USAGE, strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode) || uint64_t(info.st_size) > max_bytes) {
        close(fd);
        return model_fail(t, WEFT_USAGE, "it is not a file of at most 256 MiB");
    }
    out->resize(size_t(info.st_size));
    size_t have = 0;
    ssize_t got = 1;
    while (got > 0 && have < out->size()) {
        got = read(fd, &(*out)[have], out->size() - have);
        have += got > 0 ? size_t(got) : 0;
    }
    close(fd);
    out->resize(have);
    return got < 0 ? model_fail(t, WEFT_IO, strerror(errno)) : WEFT_OK;
}

/* The memory that a model may take: what a good one does, many times over. A sanitizer's own memory
 * is beyond any bound. */
void limit_memory(uint64_t bytes)
{
    if (sanitized)
        return;
    constexpr uint64_t max_memory = 512u << 20;
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%llu", &pages) == 1) {
        const rlim_t max = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE)) + max_memory + 16 * bytes;
        const struct rlimit room = {max, max};
        setrlimit(RLIMIT_AS, &room);
    }
    if (f)
        fclose(f);
}

/* In the child: no handler of the program's runs, no core is written, and memory and time are
 * limited. */
[[noreturn]] void try_in_child(const std::string &bytes, int to)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGTERM};
    for (int s : fatal)
        signal(s, SIG_DFL);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    limit_memory(bytes.size());
    const struct rlimit time = {max_seconds, max_seconds};
    setrlimit(RLIMIT_CPU, &time);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int quiet = open("/dev/null", O_RDWR);
    dup2(quiet, 1);
    dup2(quiet, 2);
    char said = 'b';
    try {
        sentencepiece::SentencePieceProcessor model;
        std::vector<int> ids;
        std::string text;
        if (model.LoadFromSerializedProto(bytes).ok() && model.Encode(probe, &ids).ok() &&
            model.Decode(ids, &text).ok())
            said = 'g';
    } catch (...) {
    }
    if (write(to, &said, 1) < 0)
        _exit(1);
    _exit(0);
}

/* 'g': the library takes it; 'b': it refuses it; 0: it did not live to say so. */
char try_load(const std::string &bytes)
{
    int ends[2];
    char said = 'g'; /* where no child can be made nothing is known, as without this test */
    if (pipe2(ends, O_CLOEXEC))
        return said;
    const pid_t child = fork();
    if (!child)
        try_in_child(bytes, ends[1]);
    close(ends[1]);
    if (child > 0) {
        ssize_t got;
        do
            got = read(ends[0], &said, 1);
        while (got < 0 && errno == EINTR);
        if (got != 1)
            said = 0;
        int status;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    return said;
}

std::vector<int> encoded(const weft_tokenizer *t, const char *text)
{
    std::vector<int> ids;
    if (!t->model.Encode(text, &ids).ok())
        ids.clear();
    return ids;
}

bool starts(const std::string &s, const char *with)
{
    return s.compare(0, strlen(with), with) == 0;
}

std::string with_spaces(std::string s)
{
    for (size_t at; (at = s.find(space)) != std::string::npos;)
        s.replace(at, strlen(space), " ");
    return s;
}

/* What an id becomes. */
std::string text_of(const weft_tokenizer *t, int id)
{
    const std::string &piece = t->model.IdToPiece(id);
    if (t->model.IsControl(id))
        return "";
    if (t->model.IsUnknown(id))
        return " \xe2\x81\x87 ";
    if (t->model.IsByte(id) && piece.size() == 6)
        return std::string(1, char(strtol(piece.substr(3, 2).c_str(), nullptr, 16)));
    return with_spaces(piece);
}

/* How the model treats spaces, from what it makes of some; and whether a piece has an inner one. */
void settle(weft_tokenizer *t)
{
    const std::vector<int> plain = encoded(t, "a");
    t->prefixes = !plain.empty() && starts(t->model.IdToPiece(plain[0]), space);
    t->squeezes = encoded(t, "a  b") == encoded(t, "a b");
    t->cuts = t->prefixes && !t->model.IsUnknown(t->model.PieceToId(space));
    for (int i = 0; i < int(t->vocab) && t->cuts; i++) {
        const std::string s = t->bytes[size_t(i)];
        const size_t other = s.find_first_not_of(' ');
        t->cuts = t->model.IsControl(i) || t->model.IsUnknown(i) || other == std::string::npos ||
                  s.find(' ', other) == std::string::npos;
    }
}

} // namespace

weft_status model_fail(const weft_tokenizer *t, weft_status code, const char *why) noexcept
{
    char text[1024];
    snprintf(text, sizeof text, "cannot read the tokenizer %.800s: %.180s", t->path.c_str(), why);
    return (t->host->fail)(t->host->ctx, code, text);
}

weft_status model_load(weft_tokenizer *t, const char *path)
{
    std::string bytes;
    t->path = path;
    weft_status st = read_file(t, &bytes);
    if (st != WEFT_OK)
        return st;
    const char said = try_load(bytes);
    if (!said)
        return model_fail(t, WEFT_USAGE, "the library SentencePiece ends or hangs on this file");
    if (said != 'g' || !t->model.LoadFromSerializedProto(bytes).ok())
        return model_fail(t, WEFT_USAGE, "it is not a model of SentencePiece");
    const int n = t->model.GetPieceSize();
    if (n < 1 || uint64_t(n) > max_ids)
        return model_fail(t, WEFT_USAGE, "it has no pieces, or too many");
    t->vocab = uint32_t(n);
    uint64_t digest = 1469598103934665603u;
    for (unsigned char c : bytes)
        digest = (digest ^ c) * 1099511628211u;
    char line[96];
    snprintf(line, sizeof line, "sentencepiece of %u ids, content %016llx", t->vocab,
             static_cast<unsigned long long>(digest));
    t->identity = line;
    for (int i = 0; i < n; i++) {
        t->bytes.push_back(text_of(t, i));
        if (t->bytes.back().size() > max_token)
            return model_fail(
                t, WEFT_USAGE,
                ("the piece " + std::to_string(i) + " has more than 1024 bytes").c_str());
    }
    t->begin = uint32_t(t->model.bos_id() + 1);
    t->end = uint32_t(t->model.eos_id() + 1);
    settle(t);
    return WEFT_OK;
}
