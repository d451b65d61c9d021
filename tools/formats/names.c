/* formats/names.c: names of tensors and parameters, and the order of axes. See internal.h. */
#include <string.h>

#include "formats/internal.h"

/* Does `name` match `pattern`, in which '*' is a number? The digits are *number, *digits of them.
 */
static bool matches(const char *pattern, const char *name, const char **number, size_t *digits)
{
    const char *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : 0;
    *number = name;
    *digits = 0;
    if (!star)
        return !strcmp(pattern, name);
    if (strncmp(pattern, name, before))
        return false;
    *number = name + before;
    *digits = strspn(*number, "0123456789");
    const bool canonical = *digits && *digits <= 9 && (**number != '0' || *digits == 1);
    return canonical && !strcmp(*number + *digits, star + 1);
}

static bool replace_star(const char *pattern, const char *number, size_t digits,
                         char out[FORMATS_TEXT])
{
    const char *star = strchr(pattern, '*');
    const int n = star ? snprintf(out, FORMATS_TEXT, "%.*s%.*s%s", (int)(star - pattern), pattern,
                                  (int)digits, number, star + 1)
                       : snprintf(out, FORMATS_TEXT, "%s", pattern);
    return n < FORMATS_TEXT;
}

const weft_model_tensor *formats_row_of(const weft_model_format *f, const char *param,
                                        char name[FORMATS_TEXT])
{
    const char *number;
    size_t digits;
    for (const weft_model_tensor *const *t = f->tensors; *t; t++)
        if ((*t)->param && matches((*t)->param, param, &number, &digits) &&
            replace_star((*t)->name, number, digits, name))
            return *t;
    return NULL;
}

const weft_model_tensor *formats_row_named(const weft_model_format *f, const char *name)
{
    const char *number;
    size_t digits;
    const size_t prefix = strlen(f->prefix);
    const bool has = prefix && !strncmp(name, f->prefix, prefix);
    for (const weft_model_tensor *const *t = f->tensors; *t; t++) {
        const bool bare = (*t)->flags & WEFT_TENSOR_BARE;
        if (matches((*t)->name, name, &number, &digits) ||
            (has && !bare && matches((*t)->name, name + prefix, &number, &digits)))
            return *t;
    }
    return NULL;
}

/* --- axes --- */

static int axis_named(const weft_shape *s, const char *name, size_t length)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (strlen(s->axes[i].name) == length && !strncmp(s->axes[i].name, name, length))
            return (int)i;
    return -1;
}

/* "embed (three heads head_dim)": an axis there for each group. */
static weft_status read_axes(const char *axes, const formats_param *p, formats_view *v)
{
    uint32_t seen = 0, at = 0;
    bool group = false;
    for (const char *c = axes; *c;) {
        group = group || *c == '(';
        c += *c == '(';
        const size_t n = strcspn(c, " ()");
        const int axis = axis_named(&p->shape, c, n);
        if (axis < 0 || seen >> axis & 1)
            return err_fail(WEFT_USAGE,
                            "parameter %s: the family's table gives it the axes '%s', which are "
                            "not those that it has, each once",
                            p->name, axes);
        seen |= 1u << axis;
        v->order[at++] = (uint32_t)axis;
        v->shape[v->there] = (v->shape[v->there] ? v->shape[v->there] : 1) *
                             p->shape.axes[axis].size; /* fits: the shape is a plan's */
        c += n;
        group = group && *c != ')';
        c += *c == ')';
        v->there += !group;
        c += *c == ' ';
    }
    if (at != p->shape.rank)
        return err_fail(WEFT_USAGE, "parameter %s: the family's table gives it %u axes of %u",
                        p->name, at, p->shape.rank);
    return WEFT_OK;
}

weft_status formats_view_of(const weft_model_tensor *row, const formats_param *p, formats_view *v)
{
    *v = (formats_view){.rank = p->shape.rank, .plain = true};
    weft_status st = WEFT_OK;
    if (row->axes) {
        st = read_axes(row->axes, p, v);
    } else {
        v->there = v->rank;
        for (uint32_t i = 0; i < v->rank; i++) {
            v->order[i] = i;
            v->shape[i] = p->shape.axes[i].size;
        }
    }
    for (uint32_t i = 0; i < v->rank; i++)
        v->plain = v->plain && v->order[i] == i;
    return st;
}
