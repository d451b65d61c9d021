/* describe/doc.c: parses the texts of a weft_op_doc. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "describe/describe.h"

typedef struct reader {
    const char *id, *what; /* the op, and the member that is read */
    const char *text;      /* all of it */
} reader;

static weft_status wrong(const reader *r, const char *at, const char *why)
{
    return err_fail(WEFT_USAGE, "op %s: %s of its doc, \"%.200s\", at \"%.40s\": %s", r->id,
                    r->what, r->text, at, why);
}

/* Texts are printable ASCII of limited length, as a plugin's names are. */
static weft_status check_text(const char *id, const char *what, const char *text, bool needed)
{
    if (!text)
        return needed ? err_fail(WEFT_USAGE, "op %s: its doc has no %s", id, what) : WEFT_OK;
    size_t n = 0;
    while (n < GRAPH_DOC_TEXT && text[n] >= ' ' && text[n] <= '~')
        n++;
    if (n && n < GRAPH_DOC_TEXT && !text[n])
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "op %s: the %s of its doc must be one line of 1 to %d printable ASCII "
                    "characters",
                    id, what, GRAPH_DOC_TEXT - 1);
}

/* "NAME:tAX*S3?", up to a blank or the end. */
static weft_status read_operand(const reader *r, const char **at, describe_doc_operand *o)
{
    const char *p = *at;
    const size_t name = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
    *o = (describe_doc_operand){0};
    if (!name || name >= sizeof o->name || p[name] != ':')
        return wrong(r, p, "a name of lower-case letters and a colon are expected");
    memcpy(o->name, p, name);
    p += name + 1;
    if (!*p || !strchr("cgfilx", *p))
        return wrong(r, p, "a type is expected: c, g, f, i, l or x (weft/match.h)");
    o->type = *p++;
    for (; *p && *p != ' ' && *p != '?'; p++) {
        if (o->n == WEFT_MAX_AXES)
            return wrong(r, p, "too many axes");
        if (*p == '*' && isupper((unsigned char)p[1]))
            o->group |= 1u << o->n, p++;
        else if (!isupper((unsigned char)*p) && *p != '3')
            return wrong(r, p, "an axis is expected: A to Z, * and A to Z, or 3");
        o->letter[o->n++] = *p;
    }
    o->optional = *p == '?';
    *at = p + o->optional;
    return WEFT_OK;
}

/* The operands of one form, up to " | " or the end. */
static weft_status read_side(const reader *r, const char **at, describe_doc_operand *out,
                             uint32_t *n)
{
    weft_status st = WEFT_OK;
    for (*n = 0; st == WEFT_OK; (*n)++) {
        if (*n == WEFT_MAX_OPERANDS)
            return wrong(r, *at, "too many operands");
        st = read_operand(r, at, &out[*n]);
        const char *p = *at;
        if (st == WEFT_OK && *n && out[*n - 1].optional && !out[*n].optional)
            st = wrong(r, p, "an input that has to be given follows one that may be absent");
        if (st != WEFT_OK)
            return st;
        if (!*p || !strncmp(p, " | ", 3)) {
            (*n)++;
            return WEFT_OK;
        }
        if (*p != ' ')
            return wrong(r, p, "the operand must end here");
        *at = p + 1;
    }
    return st;
}

/* All forms of one side; *forms is their number. */
static weft_status read_forms(const reader *r, describe_doc *d, bool outputs, uint32_t *forms)
{
    const char *p = r->text;
    for (*forms = 0;;) {
        if (*forms == GRAPH_DOC_FORMS)
            return wrong(r, p, "too many forms");
        describe_doc_form *f = &d->form[(*forms)++];
        weft_status st = read_side(r, &p, outputs ? f->out : f->in, outputs ? &f->nout : &f->nin);
        if (st != WEFT_OK || !*p)
            return st;
        p += strlen(" | ");
    }
}

/* "T tokens, I in" */
static weft_status read_axes(const reader *r, describe_doc *d)
{
    for (const char *p = r->text;; p += 2) {
        const size_t n = isupper((unsigned char)*p) && p[1] == ' ' ? strcspn(p + 2, ",") : 0;
        if (!n || n >= WEFT_MAX_NAME - 1 || d->axis[*p - 'A'][0][0])
            return wrong(r, p, "a letter of its own, a blank and a name are expected");
        for (int k = 0; k < GRAPH_DOC_GROUP; k++) {
            memcpy(d->axis[*p - 'A'][k], p + 2, n);
            d->axis[*p - 'A'][k][n] = (char)(k ? '1' + k : 0);
        }
        p += 2 + n;
        if (!*p)
            return WEFT_OK;
        if (p[1] != ' ')
            return wrong(r, p, "a comma and a blank are expected");
    }
}

/* "KEY int|real DEFAULT MEANING" */
static weft_status read_attr(const reader *r, const char *p, size_t n, describe_doc_attr *a)
{
    char line[GRAPH_DOC_TEXT], *next = NULL, *end = NULL;
    memcpy(line, p, n);
    line[n] = 0;
    const char *key = strtok_r(line, " ", &next), *type = strtok_r(NULL, " ", &next);
    const char *dflt = strtok_r(NULL, " ", &next);
    if (!key || !type || !dflt || !next || !*next || strlen(key) >= WEFT_MAX_NAME)
        return wrong(r, p, "a key, a type, a default and a meaning are expected");
    if (!strcmp(key, "*"))
        return wrong(r, p, "the name of an axis is expected after '*'");
    *a = (describe_doc_attr){.real = !strcmp(type, "real")};
    a->required = *dflt == '-' && (!dflt[1] || (dflt[1] >= 'A' && dflt[1] <= 'Z' && !dflt[2]));
    a->size_of = a->required ? dflt[1] : 0;
    if (!a->real && strcmp(type, "int"))
        return wrong(r, p, "the type int or real is expected after the key");
    a->dflt = a->required ? 1 : strtod(dflt, &end);
    if (end && *end)
        return wrong(r, p, "a number, '-' or '-' and a letter is expected after the type");
    memcpy(a->key, key, strlen(key) + 1);
    memcpy(a->meaning, next, strlen(next) + 1);
    return WEFT_OK;
}

static weft_status read_attrs(const reader *r, describe_doc *d)
{
    for (const char *p = r->text; *p;) {
        const char *end = strstr(p, "; ");
        const size_t n = end ? (size_t)(end - p) : strlen(p);
        if (d->nattrs == GRAPH_DOC_ATTRS)
            return wrong(r, p, "too many attributes");
        weft_status st = read_attr(r, p, n, &d->attr[d->nattrs++]);
        if (st != WEFT_OK)
            return st;
        p += n + (end ? strlen("; ") : 0);
    }
    return WEFT_OK;
}

/* Every letter has a name, and those of the outputs are letters of the inputs or named. */
static weft_status check_letters(const reader *r, const describe_doc *d)
{
    for (uint32_t f = 0; f < d->nforms; f++)
        for (uint32_t i = 0; i < d->form[f].nin + d->form[f].nout; i++) {
            const describe_doc_form *form = &d->form[f];
            const describe_doc_operand *o =
                i < form->nin ? &form->in[i] : &form->out[i - form->nin];
            for (uint32_t k = 0; k < o->n; k++)
                if (o->letter[k] != '3' && !d->axis[o->letter[k] - 'A'][0][0])
                    return wrong(r, (char[]){o->letter[k], 0},
                                 "this axis of an operand has no name");
        }
    return WEFT_OK;
}

static weft_status check_texts(const char *id, const weft_op_doc *t)
{
    const struct {
        const char *what, *text;
        bool needed;
    } all[] = {{"help", t->help, true},
               {"operands", t->operands, true},
               {"results", t->results, true},
               {"axes", t->axes, false},
               {"attributes", t->attributes, false},
               {"formula", t->formula, false}};
    weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < sizeof all / sizeof *all; i++)
        st = check_text(id, all[i].what, all[i].text, all[i].needed);
    return st;
}

weft_status describe_doc_read(const char *id, const weft_op *op, describe_doc *out)
{
    uint32_t results = 0;
    memset(out, 0, sizeof *out);
    out->id = id;
    out->op = op;
    if (!op->doc)
        return WEFT_ABSENT;
    const size_t size = op->doc->struct_size; /* an older plugin's doc is shorter */
    memcpy(&out->text, op->doc, size < sizeof out->text ? size : sizeof out->text);
    const weft_op_doc *t = &out->text;
    weft_status st = check_texts(id, t);
    if (st == WEFT_OK)
        st = read_forms(&(reader){id, "operands", t->operands}, out, false, &out->nforms);
    if (st == WEFT_OK)
        st = read_forms(&(reader){id, "results", t->results}, out, true, &results);
    if (st == WEFT_OK && results != out->nforms)
        st = err_fail(WEFT_USAGE, "op %s: its doc has %u forms of operands and %u of results", id,
                      out->nforms, results);
    if (st == WEFT_OK && t->axes)
        st = read_axes(&(reader){id, "axes", t->axes}, out);
    if (st == WEFT_OK)
        st = check_letters(&(reader){id, "axes", t->axes ? t->axes : ""}, out);
    if (st == WEFT_OK && t->attributes)
        st = read_attrs(&(reader){id, "attributes", t->attributes}, out);
    return st;
}

const char *describe_doc_axis(const describe_doc *d, const describe_doc_operand *o, uint32_t k)
{
    return o->letter[k] == '3' ? "three" : d->axis[o->letter[k] - 'A'][0];
}

uint32_t describe_doc_calls(const describe_doc *d, describe_doc_call *out)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < d->nforms; f++) {
        const describe_doc_form *form = &d->form[f];
        uint32_t nin = form->nin, fewest = nin;
        while (fewest && form->nin - fewest < GRAPH_DOC_OPTIONAL && form->in[fewest - 1].optional)
            fewest--;
        do
            out[n++] = (describe_doc_call){.doc = d, .form = form, .nin = nin, .group = 1};
        while (nin-- > fewest);
    }
    return n;
}

/* "split", "split along heads", "partial sum" */
static void place_text(const describe_doc *d, const describe_doc_operand *o,
                       const describe_doc_row *r, weft_place p, char text[WEFT_MAX_NAME + 16])
{
    static const char *const words[] = {"whole", "", "partial sum", "partial maximum", "held"};
    if (p.kind != WEFT_SPLIT)
        snprintf(text, WEFT_MAX_NAME + 16, "%s", p.kind <= WEFT_HELD ? words[p.kind] : "unknown");
    else if (p.axis >= o->n)
        snprintf(text, WEFT_MAX_NAME + 16, "split along an axis that it does not have");
    else if (strchr(r->split, o->letter[p.axis]))
        snprintf(text, WEFT_MAX_NAME + 16, "split");
    else
        snprintf(text, WEFT_MAX_NAME + 16, "split along %s", describe_doc_axis(d, o, p.axis));
}

const char *describe_doc_row_text(const describe_doc *d, const describe_doc_form *f,
                                  const describe_doc_row *r, char text[GRAPH_DOC_TEXT])
{
    char now[WEFT_MAX_NAME + 16], next[WEFT_MAX_NAME + 16];
    size_t used = 0;
    if (!r->accepted)
        return memcpy(text, "refused", sizeof "refused");
    for (uint32_t i = 0; i < f->nout && used < GRAPH_DOC_TEXT; i++) {
        place_text(d, &f->out[i], r, r->out[i], now);
        next[0] = 0;
        if (i + 1 < f->nout)
            place_text(d, &f->out[i + 1], r, r->out[i + 1], next);
        const bool same = !strcmp(now, next);
        used += (size_t)snprintf(text + used, GRAPH_DOC_TEXT - used, "%s%s%s%s", f->out[i].name,
                                 same ? "" : " ", same ? "" : now, i + 1 < f->nout ? ", " : "");
    }
    return text;
}
