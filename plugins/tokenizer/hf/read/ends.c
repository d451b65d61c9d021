/* read/ends.c: added tokens, and which ids begin and end a text. */
#include <stdlib.h>

#include "read.h"

#define MAX_ADDED 65536u

static weft_status read_one(const reader *r, const json_t *value, uint32_t *next)
{
    static const char *const fields[] = {"id",     "content",    "single_word", "lstrip",
                                         "rstrip", "normalized", "special",     NULL};
    weft_tokenizer *t = r->t;
    hf_added a = {.normalized = true};
    const json_t *id = json_object_get(value, "id");
    weft_status st = read_known(r, value, fields);
    if (st == WEFT_OK)
        st = read_text(r, value, "content", &a.text, &a.n);
    if (st == WEFT_OK && (!a.n || !json_is_integer(id)))
        st = read_bad(r, "content", "an added token has an id and a text");
    if (st == WEFT_OK)
        st = read_bool(r, value, "single_word", &a.single);
    if (st == WEFT_OK)
        st = read_bool(r, value, "lstrip", &a.lstrip);
    if (st == WEFT_OK)
        st = read_bool(r, value, "rstrip", &a.rstrip);
    if (st == WEFT_OK)
        st = read_bool(r, value, "normalized", &a.normalized);
    if (st == WEFT_OK)
        st = read_bool(r, value, "special", &a.special);
    if (st == WEFT_OK) {
        const int32_t known = read_id(t, a.text, a.n);
        a.id = known >= 0 ? known : (int32_t)(*next)++;
        if (json_integer_value(id) != a.id)
            st = read_bad(r, "id", "\"%.60s\" has the id %lld here and gets %d in the library",
                          a.text, (long long)json_integer_value(id), (int)a.id);
    }
    if (st == WEFT_OK)
        st = read_grow(r, (uint32_t)a.id + 1);
    if (st == WEFT_OK)
        st = read_name(r, (uint32_t)a.id, a.text, a.n);
    if (st != WEFT_OK) {
        free(a.text);
        return st;
    }
    for (uint32_t i = 0; i < t->nadded; i++)
        if (t->added[i].id == a.id) { /* the later one counts */
            free(t->added[i].text);
            t->added[i] = a;
            return WEFT_OK;
        }
    t->added[t->nadded++] = a;
    return WEFT_OK;
}

/* What a normalized token looks like in a normalized text; it is also what its id decodes to. */
static weft_status normalize(const reader *r, hf_work *w, hf_added *a)
{
    const hf_piece whole = {.n = a->n, .id = -1, .first = true};
    w->normal.n = 0;
    hf_normalize(w, a->text, a->n, &whole, &w->normal);
    if (w->failed)
        return read_no_memory(r);
    if (w->normal.n > HF_MAX_TOKEN)
        return read_bad(r, "added_tokens", "\"%.60s\" is too long when it is normalized", a->text);
    if (w->normal.n == a->n && !memcmp(w->normal.at, a->text, a->n))
        return WEFT_OK;
    char *text = read_copy(w->normal.n ? w->normal.at : "", w->normal.n);
    if (!text)
        return read_no_memory(r);
    free(a->text);
    a->text = text;
    a->n = (uint32_t)w->normal.n;
    return WEFT_OK;
}

/* A trie of those that are looked for in the text, or in the normalized text. */
static weft_status make_trie(const reader *r, bool normalized, hf_trie *out, uint8_t starts[256])
{
    weft_tokenizer *t = r->t;
    hf_key *keys = malloc((t->nadded + 1u) * sizeof *keys);
    uint32_t n = 0;
    for (uint32_t i = 0; keys && i < t->nadded; i++)
        if (t->added[i].normalized == normalized && t->added[i].n) {
            keys[n++] = (hf_key){t->added[i].text, t->added[i].n, i, (int32_t)i};
            starts[(unsigned char)*t->added[i].text] = 1;
        }
    const bool made = keys && hf_trie_make(out, keys, n);
    free(keys);
    return made ? WEFT_OK : read_no_memory(r);
}

weft_status read_added(const reader *r, const json_t *value)
{
    weft_tokenizer *t = r->t;
    const size_t n = json_array_size(value);
    uint32_t next = t->own;
    weft_status st = WEFT_OK;
    if (value && !json_is_null(value) && (!json_is_array(value) || n > MAX_ADDED))
        return read_bad(r, "added_tokens", "it is not a list of at most %u tokens", MAX_ADDED);
    t->added = calloc(n + 1, sizeof *t->added);
    hf_work *w = hf_work_take(t);
    if (!t->added || !w)
        st = read_no_memory(r);
    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        const reader below = read_element(r, "added_tokens", i);
        st = read_one(&below, json_array_get(value, i), &next);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < t->nadded; i++)
        if (t->added[i].normalized)
            st = normalize(r, w, &t->added[i]);
    if (w)
        hf_work_give(t, w);
    if (st == WEFT_OK)
        st = make_trie(r, false, &t->plain, t->starts_plain);
    return st == WEFT_OK ? make_trie(r, true, &t->normal, t->starts_normal) : st;
}

/* --- what begins and ends a text --- */

static weft_status set_end(const reader *r, const char *field, const json_t *id, uint32_t *end)
{
    const json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= r->t->vocab)
        return read_bad(r, field, "it has no id below the vocabulary of %u", r->t->vocab);
    if (*end)
        return read_bad(r, field,
                        "only one token in front of a text and one behind it is possible");
    *end = (uint32_t)i + 1;
    return WEFT_OK;
}

/* "single": tokens in front of sequence A, and behind it. */
static weft_status read_template(const reader *r, const json_t *value)
{
    const json_t *single = json_object_get(value, "single");
    weft_status st = json_is_array(single) ? WEFT_OK : read_bad(r, "single", "it is not a list");
    bool behind = false;
    for (size_t i = 0; st == WEFT_OK && i < json_array_size(single); i++) {
        const json_t *part = json_array_get(single, i);
        const json_t *token = json_object_get(json_object_get(part, "SpecialToken"), "id");
        const json_t *of = json_is_string(token)
                               ? json_object_get(json_object_get(value, "special_tokens"),
                                                 json_string_value(token))
                               : NULL;
        const json_t *ids = json_object_get(of, "ids");
        if (json_object_get(part, "Sequence") && !behind)
            behind = true;
        else if (json_array_size(ids) != 1)
            st =
                read_bad(r, "single", "part %zu is not the text, nor a special token of one id", i);
        else
            st = set_end(r, "single", json_array_get(ids, 0), behind ? &r->t->end : &r->t->begin);
    }
    return st == WEFT_OK && !behind ? read_bad(r, "single", "the text is not in it") : st;
}

static weft_status read_processor(const reader *r, const json_t *value, int depth);

static weft_status read_pair(const reader *r, const json_t *value)
{
    const json_t *cls = json_object_get(value, "cls"), *sep = json_object_get(value, "sep");
    const weft_status st = set_end(r, "cls", json_array_get(cls, 1), &r->t->begin);
    return st == WEFT_OK ? set_end(r, "sep", json_array_get(sep, 1), &r->t->end) : st;
}

static weft_status read_processors(const reader *r, const json_t *value, int depth)
{
    const json_t *all = json_object_get(value, "processors");
    weft_status st = json_is_array(all) ? WEFT_OK : read_bad(r, "processors", "it is not a list");
    for (size_t i = 0; st == WEFT_OK && i < json_array_size(all); i++) {
        const reader below = read_element(r, "processors", i);
        st = read_processor(&below, json_array_get(all, i), depth + 1);
    }
    return st;
}

/* What says where tokens stand in the text (trim_offsets, add_prefix_space) changes no id. */
static weft_status read_processor(const reader *r, const json_t *value, int depth)
{
    static const struct {
        const char *type, *fields[6];
    } all[] = {
        {"ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"}},
        {"TemplateProcessing", {"type", "single", "pair", "special_tokens"}},
        {"BertProcessing", {"type", "sep", "cls"}},
        {"RobertaProcessing", {"type", "sep", "cls", "trim_offsets", "add_prefix_space"}},
        {"Sequence", {"type", "processors"}},
    };
    weft_status st = WEFT_OK;
    if (!value || json_is_null(value))
        return WEFT_OK;
    const char *type = read_type(r, value, &st);
    size_t i = 0;
    while (st == WEFT_OK && i < sizeof all / sizeof *all && strcmp(type, all[i].type))
        i++;
    if (st == WEFT_OK && (i == sizeof all / sizeof *all || depth > 8))
        st = read_bad(r, "type", "the post-processor %.60s is not supported", type);
    if (st == WEFT_OK)
        st = read_known(r, value, all[i].fields);
    if (st != WEFT_OK || !strcmp(type, "ByteLevel"))
        return st;
    if (!strcmp(type, "TemplateProcessing"))
        return read_template(r, value);
    return strcmp(type, "Sequence") ? read_pair(r, value) : read_processors(r, value, depth);
}

/* An option that names the token; "auto" keeps what the file says. */
static weft_status choose(const reader *r, const weft_conf *conf, const char *key, uint32_t *end)
{
    const char *name = conf->text(conf->ctx, key);
    if (!strcmp(name, "auto"))
        return WEFT_OK;
    *end = 0;
    if (!strcmp(name, "none") || !*name)
        return WEFT_OK;
    *end = (uint32_t)(read_id(r->t, name, strlen(name)) + 1);
    return *end ? WEFT_OK
                : read_bad(r, "", "it has no token \"%.100s\", which tokenizer.%s asks for", name,
                           key);
}

weft_status read_ends(const reader *r, const json_t *value, const weft_conf *conf)
{
    static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    weft_tokenizer *t = r->t;
    const reader below = read_field(r, "post_processor");
    weft_status st = read_processor(&below, value, 0);
    for (size_t i = 0; !t->end && i < sizeof usual / sizeof *usual; i++)
        t->end = (uint32_t)(read_id(t, usual[i], strlen(usual[i])) + 1);
    if (st == WEFT_OK)
        st = choose(r, conf, "begin", &t->begin);
    return st == WEFT_OK ? choose(r, conf, "end", &t->end) : st;
}
