/* plugins/tokenizer/sentencepiece: models of SentencePiece (tokenizer.model), by the library
 * itself. Bytes that are no UTF-8 are what the library makes of them: U+FFFD each. */
#include <string.h>

#include "model.h"
#include "utf8.h"

namespace
{

constexpr uint64_t waits = 64 << 10, max_piece = 64 << 20;

uint64_t whole_chars(const char *s, uint64_t n)
{
    uint64_t end = n;
    while (end > 1 && n - end < 4 && (s[end - 1] & 0xc0) == 0x80)
        end--;
    return end > 1 && static_cast<unsigned char>(s[end - 1]) >= 0xc0 ? end - 1 : n;
}

/* Bytes of the next piece; 0: text that follows decides. */
uint64_t next_piece(const weft_tokenizer *t, const char *s, uint64_t n, bool last)
{
    const uint64_t max = n < max_piece ? n : max_piece;
    for (uint64_t i = 1; i < max; i++) {
        const void *at = memchr(s + i, ' ', max - i);
        if (!at)
            break;
        i = uint64_t(static_cast<const char *>(at) - s);
        if (t->cuts && utf8_is_gap(s, n, i))
            return i;
    }
    if (last && n <= max_piece)
        return n;
    return n < waits ? 0 : whole_chars(s, max);
}

/* The space in front of a word comes from the library where it puts one in front of a text. */
weft_status encode_piece(const weft_tokenizer *t, const char *s, uint64_t n, bool first,
                         std::vector<int> *ids)
{
    const uint64_t skip = !first && t->prefixes && !t->squeezes && n > 1 && *s == ' ';
    return t->model.Encode(absl::string_view(s + skip, n - skip), ids).ok()
               ? WEFT_OK
               : model_fail(t, WEFT_DATA, "the library cannot encode a text by it");
}

/* Half of it, at a character; n where it is one. */
uint64_t half(const char *s, uint64_t n)
{
    uint64_t at = n / 2;
    while (at && (s[at] & 0xc0) == 0x80)
        at--;
    for (at = at ? at : 1; at < n && (s[at] & 0xc0) == 0x80;)
        at++;
    return at;
}

weft_status encode_text(const weft_tokenizer *t, const weft_encode_args &a, uint64_t *used,
                        uint64_t *n)
{
    std::vector<int> ids;
    while (*used < a.bytes && *n < a.room) {
        const char *s = a.text + *used;
        const bool first = !*used && a.flags & WEFT_TEXT_FIRST;
        uint64_t bytes = next_piece(t, s, a.bytes - *used, a.flags & WEFT_TEXT_LAST);
        if (!bytes)
            return WEFT_OK;
        for (;;) {
            const weft_status st = encode_piece(t, s, bytes, first, &ids);
            if (st != WEFT_OK)
                return st;
            const uint64_t less = half(s, bytes);
            if (ids.size() <= a.room - *n || less == bytes)
                break;
            if (*n)
                return WEFT_OK;
            bytes = less;
        }
        for (size_t i = 0; i < ids.size() && *n < a.room; i++)
            a.out[(*n)++] = ids[i];
        *used += bytes;
    }
    return WEFT_OK;
}

weft_status encode(weft_tokenizer *t, const weft_encode_args *args, uint64_t *used, uint64_t *n)
{
    weft_encode_args a = {};
    weft_status st = weft_check_args(t->host, args, sizeof *args,
                                     WEFT_TEXT_LAST | WEFT_TEXT_SPECIAL | WEFT_TEXT_FIRST);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    *used = *n = 0;
    try {
        return encode_text(t, a, used, n);
    } catch (...) {
        return model_fail(t, WEFT_NO_MEMORY, "there is no memory to encode a text");
    }
}

weft_status decode(weft_tokenizer *t, const weft_decode_args *args, uint64_t *used, uint64_t *bytes)
{
    weft_decode_args a = {};
    weft_status st = weft_check_args(t->host, args, sizeof *args, WEFT_TEXT_FIRST);
    if (st != WEFT_OK)
        return st;
    weft_take(&a, sizeof a, args);
    bool first = a.flags & WEFT_TEXT_FIRST && (t->prefixes || t->squeezes);
    for (*used = *bytes = 0; *used < a.n; ++*used) {
        const int32_t id = a.ids[*used];
        if (id < 0 || uint32_t(id) >= t->vocab)
            return model_fail(t, WEFT_USAGE, "decode(): an id is not below its vocabulary");
        const std::string &s = t->bytes[size_t(id)];
        const size_t skip =
            first && !*bytes && !t->model.IsUnknown(id) && !s.empty() && s[0] == ' ';
        if (s.size() - skip > a.room - *bytes)
            break;
        memcpy(a.out + *bytes, s.data() + skip, s.size() - skip);
        *bytes += s.size() - skip;
        first = first && (t->squeezes || !skip);
    }
    return WEFT_OK;
}

weft_status cut(weft_tokenizer *t, const char *text, uint64_t bytes, uint64_t *at)
{
    *at = 0;
    for (uint64_t i = bytes; i-- > 1 && !*at;)
        if (t->cuts && utf8_is_gap(text, bytes, i))
            *at = i;
    return WEFT_OK;
}

void close_model(weft_tokenizer *t)
{
    delete t;
}

/* An option that may turn off the id that begins or ends a text. */
bool is_off(const weft_conf *conf, const char *key)
{
    return !strcmp(conf->text(conf->ctx, key), "none");
}

void settle_ends(weft_tokenizer *t, const weft_conf *conf)
{
    if (is_off(conf, "begin"))
        t->begin = 0;
    if (is_off(conf, "end"))
        t->end = 0;
    t->identity += ", begin " + std::to_string(int64_t(t->begin) - 1) + ", end " +
                   std::to_string(int64_t(t->end) - 1);
}

weft_status open_model(void *module, const weft_conf *conf, weft_tokenizer **out)
{
    const weft_host *host = static_cast<const weft_host *>(module);
    weft_tokenizer *t = nullptr;
    weft_status st;
    try {
        t = new weft_tokenizer();
        t->host = host;
        st = model_load(t, conf->text(conf->ctx, "file"));
        if (st == WEFT_OK)
            settle_ends(t, conf);
    } catch (...) {
        st = (host->fail)(host->ctx, WEFT_NO_MEMORY, "there is no memory for a tokenizer");
    }
    if (st == WEFT_OK)
        *out = t;
    else
        delete t;
    return st;
}

weft_status info(weft_tokenizer *t, weft_tokenizer_info *out)
{
    weft_tokenizer_info i = {};
    i.struct_size = sizeof i;
    i.flags = WEFT_TOKENIZER_NORMALIZES | WEFT_TOKENIZER_FIRST;
    i.vocab = t->vocab;
    i.begin = t->begin;
    i.end = t->end;
    i.identity = t->identity.c_str();
    weft_give(out, &i);
    return WEFT_OK;
}

const weft_option file = {sizeof file,
                          WEFT_OPT_STRING,
                          "file",
                          "tokenizer.model",
                          "model of SentencePiece",
                          nullptr,
                          0,
                          0};
const weft_option begin = {sizeof begin,
                           WEFT_OPT_CHOICE,
                           "begin",
                           "auto",
                           "what begins a text; auto: the model's id for that",
                           "auto|none",
                           0,
                           0};
const weft_option end = {sizeof end,
                         WEFT_OPT_CHOICE,
                         "end",
                         "auto",
                         "what ends a text; auto: the model's id for that",
                         "auto|none",
                         0,
                         0};
const weft_option *const options[] = {&file, &begin, &end, nullptr};

const weft_tokenizer_table table = {sizeof table, 0,      open_model, close_model,
                                    info,         encode, decode,     cut};
const weft_component component = {sizeof component,
                                  0,
                                  "weft.tokenizer/1",
                                  "sentencepiece",
                                  "tokenizer.model of SentencePiece, by its library",
                                  options,
                                  &table,
                                  nullptr};
const weft_component *const components[] = {&component, nullptr};

} // namespace

WEFT_PLUGIN("weft.sentencepiece", "0.1.0", "Apache-2.0", components, weft_open_host, nullptr);
