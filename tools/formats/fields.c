/* formats/fields.c: fields of a configuration and keys of [model]. See internal.h and weft/model.h.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/internal.h"

bool formats_is_of(const weft_model_format *f, const char *architecture)
{
    const char *rest = f->architecture;
    char one[FORMATS_TEXT];
    while (formats_next(&rest, one))
        if (!strcmp(one, architecture))
            return true;
    return false;
}

/* --- into keys --- */

static bool whole(const char *word, int64_t *out)
{
    char *end;
    *out = strtoll(word, &end, 10);
    return *word && !*end && *out > 0 && *out < INT64_C(1) << 40;
}

/* "4*n_embd" and "a/b" as numbers, other text as it is. False: a field of it is missing, or the
 * product is too large. */
static bool computed(const json_t *root, const char *text, char out[FORMATS_TEXT])
{
    const size_t n = strcspn(text, "*/");
    char side[2][FORMATS_TEXT], word[FORMATS_TEXT];
    int64_t value[2];
    snprintf(out, FORMATS_TEXT, "%s", text);
    if (!text[n] || !n || !text[n + 1])
        return true;
    snprintf(side[0], FORMATS_TEXT, "%.*s", (int)n, text);
    snprintf(side[1], FORMATS_TEXT, "%s", text + n + 1);
    for (int i = 0; i < 2; i++) {
        const json_t *field = formats_json_find(root, side[i], NULL);
        const char *is = field ? formats_json_word(field, word) : side[i];
        if (!whole(is, &value[i]))
            return false;
    }
    int64_t result = value[0] / value[1];
    if (text[n] == '*' && __builtin_mul_overflow(value[0], value[1], &result))
        return false;
    snprintf(out, FORMATS_TEXT, "%lld", (long long)result);
    return true;
}

/* The word HERE of "THERE=HERE|THERE=HERE" for `there`, or the reverse; false: it has none. */
static bool translate(const char *values, const char *word, bool back, char out[FORMATS_TEXT])
{
    char pair[FORMATS_TEXT];
    while (formats_next(&values, pair)) {
        char *here = strchr(pair, '=');
        if (!here)
            continue;
        *here++ = 0;
        if (!strcmp(back ? here : pair, word)) {
            snprintf(out, FORMATS_TEXT, "%s", back ? pair : here);
            return true;
        }
    }
    return false;
}

static bool among(const json_t *root, const char *values, const char *word)
{
    char one[FORMATS_TEXT], is[FORMATS_TEXT];
    while (formats_next(&values, one))
        if (computed(root, one, is) && formats_same_value(is, word))
            return true;
    return false;
}

/* The possible values for a message: "silu or gelu". */
static const char *choices(const char *values, char out[FORMATS_TEXT])
{
    char one[FORMATS_TEXT];
    size_t at = 0;
    *out = 0;
    while (formats_next(&values, one) && at < FORMATS_TEXT - 1) {
        one[strcspn(one, "=")] = 0;
        at += (size_t)snprintf(out + at, FORMATS_TEXT - at, "%s%s", at ? " or " : "", one);
    }
    return out;
}

static weft_status add_setting(const weft_model_field *field, const char *word, pool *p,
                               formats_settings *out)
{
    if (!config_text_lawful(word))
        return err_fail(WEFT_USAGE, "the value of '%s' cannot stand in a job file", field->field);
    *vec_push(out) = (formats_setting){field->key, pool_text(p, word)};
    return WEFT_OK;
}

/* A path leads through objects: what else stands there is no field that is left out. */
static weft_status only_objects(const json_t *root, const char *names)
{
    char path[FORMATS_TEXT];
    while (formats_next(&names, path))
        for (char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
            *dot = 0;
            const json_t *inner = formats_json_find(root, path, NULL);
            if (inner && !json_is_object(inner))
                return err_fail(WEFT_USAGE, "the field '%s' must be an object or null", path);
            *dot = '.';
        }
    return WEFT_OK;
}

/* A text in the place of true, false, null or a number is no such value: other programs take any
 * text for true. */
static weft_status right_type(const weft_model_field *field, const json_t *value, const char *path)
{
    const char *rest = field->values;
    char one[FORMATS_TEXT], known[FORMATS_TEXT];
    while (json_is_string(value) && formats_next(&rest, one)) {
        one[strcspn(one, "=")] = 0;
        json_t *there = formats_json_value(one);
        const bool text = json_is_string(there);
        json_decref(there);
        if (!text && formats_same_value(one, json_string_value(value)))
            return err_fail(WEFT_USAGE, "the field '%s' is a text; it must be %s, without quotes",
                            path, choices(field->values, known));
    }
    return WEFT_OK;
}

/* All names of the field that the file has say the same as `value`, which the name `path` leads to:
 * other programs may take another name. */
static weft_status agree(const json_t *root, const weft_model_field *field, const json_t *value,
                         const char *path)
{
    const char *rest = field->field;
    char name[FORMATS_TEXT], is[FORMATS_TEXT], other[FORMATS_TEXT];
    formats_json_word(value, is);
    while (formats_next(&rest, name)) {
        const json_t *there = formats_json_find(root, name, NULL);
        if (there && !formats_same_value(formats_json_word(there, other), is))
            return err_fail(WEFT_USAGE,
                            "the field '%s' is %s and '%s' is %s; they mean the same, so remove "
                            "the one that is wrong",
                            path, is, name, other);
    }
    return WEFT_OK;
}

/* Whether all names of the field lead into objects. */
static bool is_inside(const weft_model_field *field)
{
    const char *rest = field->field;
    char path[FORMATS_TEXT];
    bool inside = !(field->flags & WEFT_FIELD_IMPLIED) && field->key;
    while (inside && formats_next(&rest, path))
        inside = strchr(path, '.');
    return inside;
}

/* What kind the object of `path` is, "a.b" beside "a.kind", where a.kind has fixed words: without
 * it nobody reads a.b, and such a file is damaged. */
static weft_status has_kind(const weft_model_format *f, const json_t *root,
                            const weft_model_field *field, const char *path)
{
    const size_t n = (size_t)(strrchr(path, '.') - path) + 1;
    char name[FORMATS_TEXT], missing[FORMATS_TEXT] = "";
    for (const weft_model_field *const *x = f->fields; *x; x++) {
        const char *rest = (*x)->field;
        while (*x != field && is_inside(*x) && (*x)->values && formats_next(&rest, name)) {
            if (strncmp(name, path, n) || strchr(name + n, '.'))
                continue;
            if (formats_json_find(root, name, NULL))
                return WEFT_OK;
            if (!*missing)
                memcpy(missing, name, sizeof name);
        }
    }
    if (!*missing)
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "it has a field '%s' and no '%s', which says what it means", path,
                    missing);
}

/* The value has the shape that its field may have. */
static weft_status check_value(const weft_model_format *f, const json_t *root,
                               const weft_model_field *field, const json_t *value, const char *path)
{
    char word[FORMATS_TEXT];
    weft_status st = only_objects(root, field->field);
    if (st == WEFT_OK && value)
        st = right_type(field, value, path);
    if (st == WEFT_OK && value)
        st = agree(root, field, value, path);
    const bool alone = st == WEFT_OK && value && is_inside(field) && !field->values;
    if (alone && field->dflt && !formats_same_value(formats_json_word(value, word), field->dflt))
        st = has_kind(f, root, field, path);
    return st;
}

/* The first path of a field leads to null, which is not the default of every field. */
static bool is_null(const json_t *root, const char *names)
{
    char path[FORMATS_TEXT];
    formats_next(&names, path);
    return json_is_null(json_object_get(root, path));
}

static weft_status take_field(const weft_model_format *f, const weft_model_field *field,
                              const json_t *root, pool *p, formats_settings *out)
{
    char word[FORMATS_TEXT], is[FORMATS_TEXT], path[FORMATS_TEXT], known[FORMATS_TEXT];
    const bool implied = field->flags & WEFT_FIELD_IMPLIED;
    const json_t *value = implied ? NULL : formats_json_find(root, field->field, path);
    if (!value)
        snprintf(path, sizeof path, "%.*s", (int)strcspn(field->field, "|"), field->field);
    weft_status st = implied ? WEFT_OK : check_value(f, root, field, value, path);
    if (st != WEFT_OK)
        return st;
    if (!value && !implied && !field->key && is_null(root, field->field) &&
        among(root, field->values, "null"))
        return WEFT_OK;
    if (!value && !field->dflt)
        return err_fail(WEFT_USAGE, "it has no field '%s', which %s needs", path, f->architecture);
    if (value)
        formats_json_word(value, word);
    else if (!computed(root, field->dflt, word))
        return err_fail(WEFT_USAGE, "the field '%s' is missing, and %s cannot be computed for it",
                        path, field->dflt);
    if (field->key && !field->values)
        return add_setting(field, word, p, out);
    if (field->key && translate(field->values, word, false, is))
        return add_setting(field, is, p, out);
    if (!field->key && among(root, field->values, word))
        return WEFT_OK;
    return err_fail(WEFT_USAGE, "the field '%s' is %s; weft has %s only with %s", path, word,
                    f->architecture, choices(field->values, known));
}

weft_status formats_settings_of(const weft_model_format *f, const json_t *root, pool *p,
                                formats_settings *out)
{
    weft_status st = WEFT_OK;
    for (const weft_model_field *const *x = f->fields; st == WEFT_OK && x && *x; x++)
        st = take_field(f, *x, root, p, out);
    return st;
}

/* --- from keys --- */

static const weft_option *option_of(const host_component *family, const char *key)
{
    for (const weft_option *const *o = family->options; *o; o++)
        if (!strcmp((*o)->key, key))
            return *o;
    return NULL;
}

/* The value of a key as JSON has it; "auto" of a number as NULL. */
static json_t *value_of(const config *cfg, const weft_option *o, char word[FORMATS_TEXT])
{
    char key[FORMATS_TEXT];
    snprintf(key, sizeof key, "model.%s", o->key);
    json_t *value = NULL;
    if (o->type == WEFT_OPT_INT || (o->type == WEFT_OPT_AUTO_INT && config_int(cfg, key)))
        value = json_integer(config_int(cfg, key));
    else if (o->type == WEFT_OPT_REAL || o->type == WEFT_OPT_SECONDS)
        value = json_real(config_real(cfg, key));
    else if (o->type == WEFT_OPT_BOOL)
        value = json_string(config_int(cfg, key) ? "on" : "off");
    else if (o->type != WEFT_OPT_AUTO_INT)
        value = json_string(config_text(cfg, key));
    snprintf(word, FORMATS_TEXT, "auto");
    if (value)
        formats_json_word(value, word);
    return value;
}

static weft_status cannot(const config *cfg, const weft_model_format *f, const char *key,
                          const char *is, const char *has)
{
    char full[FORMATS_TEXT];
    snprintf(full, sizeof full, "model.%s", key);
    return err_fail(WEFT_USAGE, "%s is %s, which %s cannot say%s%s", config_origin(cfg, full), is,
                    f->architecture, *has ? ": there it is " : "", has);
}

/* A field without a key: as `had`, the configuration before, has it, if that may be; else the
 * default, if that may be, and null only where it takes the place of something else; else the first
 * value that may be. */
static json_t *fixed_value(const weft_model_field *x, const json_t *root, const json_t *had)
{
    char word[FORMATS_TEXT], path[FORMATS_TEXT];
    const char *rest = x->field;
    const json_t *value = formats_json_find(had, x->field, NULL);
    if (value && among(root, x->values, formats_json_word(value, word)))
        return json_deep_copy(value);
    formats_next(&rest, path);
    const bool null = x->dflt && !strcmp(x->dflt, "null");
    if (!x->dflt || (null && !json_object_get(had, path)) || !computed(root, x->dflt, word))
        return NULL;
    rest = x->values;
    if (!among(root, rest, word))
        formats_next(&rest, word);
    return formats_json_value(word);
}

/* The value of the field, or NULL where the file leaves it out. */
static weft_status field_value(const weft_model_format *f, const weft_model_field *x,
                               const host_component *family, const config *cfg, const json_t *root,
                               json_t **out)
{
    char word[FORMATS_TEXT], there[FORMATS_TEXT];
    *out = NULL;
    json_t *value = value_of(cfg, option_of(family, x->key), word);
    const bool automatic = !strcmp(word, "auto"), product = x->dflt && strpbrk(x->dflt, "*/");
    const bool known = x->dflt && computed(root, x->dflt, there);
    weft_status st = WEFT_OK;
    if (x->flags & WEFT_FIELD_IMPLIED) {
        if (!known || !formats_same_value(there, word))
            st = cannot(cfg, f, x->key, word, known ? there : "");
    } else if (!value && !(known && product)) {
        st = cannot(cfg, f, x->key, word, "a number");
    } else if (x->values && translate(x->values, word, true, there)) {
        *out = formats_json_value(there);
    } else if (x->values && automatic && known) {
        *out = formats_json_value(x->dflt);
    } else if (x->values) {
        st = cannot(cfg, f, x->key, word, choices(x->values, there));
    } else {
        *out = value ? json_incref(value) : formats_json_value(there);
    }
    json_decref(value);
    return st;
}

static bool is_default(const weft_model_field *x, const json_t *value)
{
    char word[FORMATS_TEXT];
    return x->dflt && formats_same_value(formats_json_word(value, word), x->dflt);
}

/* Fields of an object that have their defaults are left out, so that there is no object where none
 * is needed. */
static void put_fields(const weft_model_format *f, json_t *const *values, json_t *root)
{
    char path[FORMATS_TEXT];
    for (uint32_t i = 0; f->fields[i]; i++) {
        const char *rest = f->fields[i]->field;
        while (!(f->fields[i]->flags & WEFT_FIELD_IMPLIED) && formats_next(&rest, path))
            formats_json_drop(root, path);
    }
    for (uint32_t i = 0; f->fields[i]; i++) {
        const char *rest = f->fields[i]->field;
        formats_next(&rest, path);
        if (values[i] && !(strchr(path, '.') && is_default(f->fields[i], values[i])))
            formats_json_put(root, path, json_incref(values[i]));
    }
}

weft_status formats_config_of(const weft_model_format *f, const host_component *family,
                              const config *cfg, json_t *root)
{
    uint32_t n = 0;
    while (f->fields && f->fields[n])
        n++;
    json_t **values = mem_alloc((n + 1) * sizeof *values);
    json_t *plain = json_object(); /* what computed values are computed from */
    weft_status st = WEFT_OK;
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 0; st == WEFT_OK && i < n; i++) {
            char path[FORMATS_TEXT];
            const char *rest = f->fields[i]->field;
            const bool product = f->fields[i]->dflt && strpbrk(f->fields[i]->dflt, "*/");
            if (product != (again == 1))
                continue; /* these may read all others */
            if (f->fields[i]->key)
                st = field_value(f, f->fields[i], family, cfg, plain, &values[i]);
            else
                values[i] = fixed_value(f->fields[i], plain, root);
            if (values[i] && formats_next(&rest, path))
                formats_json_put(plain, path, json_incref(values[i]));
        }
    if (st == WEFT_OK && n)
        put_fields(f, values, root);
    for (uint32_t i = 0; i < n; i++)
        json_decref(values[i]);
    json_decref(plain);
    free(values);
    return st;
}

weft_status formats_settings_agree(const formats_settings *s, const host_component *family,
                                   const config *cfg)
{
    char word[FORMATS_TEXT], key[FORMATS_TEXT];
    for (uint32_t i = 0; i < s->n; i++) {
        const weft_option *o = option_of(family, s->at[i].key);
        json_t *value = value_of(cfg, o, word);
        json_decref(value);
        snprintf(key, sizeof key, "model.%s", s->at[i].key);
        if (!formats_same_value(word, s->at[i].value) && strcmp(word, "auto"))
            return err_fail(WEFT_USAGE,
                            "%s is %s, but its config.json has the model with %s = %s; `weft "
                            "import hf` writes a checkpoint whose weights start any job that has "
                            "their shapes",
                            config_origin(cfg, key), word, s->at[i].key, s->at[i].value);
    }
    return WEFT_OK;
}
