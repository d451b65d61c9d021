/* ptx_names.c: see ptx_names.h. */
#include "ptx_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

struct name *ptx_name(struct reader *r, const char *word)
{
    uint64_t h = 14695981039346656037u;
    for (const char *c = word; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211u;
    for (uint64_t i = h; i - h < MAX_NAMES; i++) {
        struct name *n = &r->names[i % MAX_NAMES];
        if (n->word[0] == '\0' || strcmp(n->word, word) == 0)
            return n;
    }
    ptx_refuse(&r->text, word, "is one name too many");
}

void ptx_set_name(struct reader *r, const char *word, int is, uint64_t number)
{
    struct name *n = ptx_name(r, word);
    snprintf(n->word, sizeof n->word, "%s", word);
    n->is = is;
    n->number = number;
}

void ptx_set_module_name(struct reader *r, const char *word, int is, uint64_t number)
{
    struct name *n = malloc(sizeof *n);
    if (r->nmodule == (int)(sizeof r->module / sizeof *r->module))
        ptx_refuse(&r->text, word, "is one name too many");
    ptx_set_name(r, word, is, number);
    *n = *ptx_name(r, word);
    r->module[r->nmodule++] = n;
}

void ptx_forget_names(struct reader *r)
{
    memset(r->names, 0, MAX_NAMES * sizeof *r->names);
    for (int i = 0; i < r->nmodule; i++)
        *ptx_name(r, r->module[i]->word) = *r->module[i];
}

/* --- rows --- */

static int start_row(struct reader *r, int what, uint64_t value)
{
    struct ptx_code *c = r->code;
    if ((c->nstart & (c->nstart - 1)) == 0)
        c->start = realloc(c->start, (c->nstart ? 2 * (size_t)c->nstart : 1) * sizeof *c->start);
    c->start[c->nstart] = (struct ptx_start){.row = r->rows, .value = value};
    c->start[c->nstart++].what = what;
    return r->rows++;
}

/* %r12, of the rows that were declared together. */
static bool numbered_row(struct reader *r, const char *word, int *row)
{
    char prefix[PTX_WORD];
    size_t n = strlen(word);
    while (n > 0 && word[n - 1] >= '0' && word[n - 1] <= '9')
        n--;
    snprintf(prefix, sizeof prefix, "%.*s", (int)n, word);
    const struct name *of = ptx_name(r, prefix);
    if (word[n] == '\0' || of->word[0] == '\0' || of->is != ROWS)
        return false;
    *row = (int)of->number + (int)strtol(word + n, NULL, 10);
    return true;
}

static bool special(const char *word, int *what)
{
    static const char *const names[] = {"%tid.x", "%ntid.x", "%ctaid.x", "%ctaid.y", "%nctaid.x"};
    for (int i = 0; i < 5; i++)
        if (strcmp(word, names[i]) == 0) {
            *what = PTX_TID + i;
            return true;
        }
    return false;
}

int ptx_row_of(struct reader *r, const char *word)
{
    struct name *n = ptx_name(r, word);
    uint64_t value = n->number;
    int what = PTX_VALUE, row;
    if (n->word[0] != '\0') {
        if (n->is == ROW || n->is == PARAMETER)
            return (int)n->number;
        if (n->is != CONSTANT && n->is != DYNAMIC)
            ptx_refuse(&r->text, word, "is no value");
        what = n->is == DYNAMIC ? PTX_DYNAMIC : PTX_VALUE;
    } else if (numbered_row(r, word, &row))
        return row;
    else if (!special(word, &what) && !ptx_number(word, &value))
        ptx_refuse(&r->text, word, "is not known");
    row = start_row(r, what, value);
    ptx_set_name(r, word, ROW, (uint64_t)row);
    return row;
}
