/* ptx_read.c: see ptx.h. One pass: names are known before they are used, but for labels, which are
 * filled in at the end of a function. */
#include "ptx_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operand {
    int row[4], n;
    int64_t offset;
    bool address, parameter;
};

/* --- declarations --- */

/* What stands behind .shared, .local or .param: .align 4 .b8 name[24]; words up to its end. */
static uint64_t declared(struct reader *r, char name[PTX_WORD], uint64_t *align)
{
    char word[PTX_WORD];
    struct ptx_kind kind;
    uint64_t count = 1;
    *align = 1;
    for (;;) {
        ptx_next(&r->text, word);
        if (strcmp(word, ".align") == 0) {
            ptx_next(&r->text, word);
            ptx_number(word, align);
        } else if (word[0] != '.' || !ptx_kind_of(word + 1, &kind))
            break;
    }
    snprintf(name, PTX_WORD, "%s", word);
    const struct ptx_text before = r->text;
    ptx_next(&r->text, word);
    if (strcmp(word, "[") != 0) {
        r->text = before;
        return (uint64_t)kind.bits / 8;
    }
    ptx_next(&r->text, word);
    if (ptx_number(word, &count))
        ptx_next(&r->text, word); /* the bracket */
    else
        count = 0;
    return count * (uint64_t)kind.bits / 8;
}

static uint64_t take(uint64_t *used, uint64_t bytes, uint64_t align)
{
    const uint64_t at = (*used + align - 1) / align * align;
    *used = at + bytes;
    return at;
}

/* .reg .b32 %r<78>; or .reg .b64 %SP; */
static void declare_rows(struct reader *r)
{
    char word[PTX_WORD], count[PTX_WORD];
    uint64_t n = 1;
    ptx_next(&r->text, word);
    ptx_next(&r->text, word);
    ptx_next(&r->text, count);
    const bool many = strcmp(count, "<") == 0;
    if (many) {
        ptx_next(&r->text, count);
        if (!ptx_number(count, &n))
            ptx_refuse(&r->text, count, "is no number");
        ptx_expect(&r->text, ">");
        ptx_expect(&r->text, ";");
    }
    ptx_set_name(r, word, many ? ROWS : ROW, (uint64_t)r->rows);
    r->rows += (int)n;
}

/* True: the word began a declaration, which has been read. */
static bool declare(struct reader *r, const char *word)
{
    char name[PTX_WORD];
    uint64_t align, bytes;
    if (strcmp(word, ".reg") == 0) {
        declare_rows(r);
        return true;
    }
    if (strcmp(word, ".pragma") == 0) {
        r->text.at += strcspn(r->text.at, ";") + 1;
        return true;
    }
    if (strcmp(word, ".shared") != 0 && strcmp(word, ".local") != 0 && strcmp(word, ".param") != 0)
        return false;
    bytes = declared(r, name, &align);
    ptx_expect(&r->text, ";");
    if (word[1] == 'p')
        ptx_set_name(r, name, PARAMETER, (uint64_t)r->rows++);
    else if (word[1] == 'l')
        ptx_set_name(r, name, CONSTANT, take(&r->code->local, bytes, align));
    else if (!r->in)
        ptx_set_name(r, name, CONSTANT, take(&r->shared, bytes, align));
    else
        ptx_refuse(&r->text, name, "is a function's own shared memory");
    return true;
}

/* --- instructions --- */

static struct ptx_instr *new_instr(struct reader *r)
{
    struct ptx_code *c = r->code;
    if ((c->ninstr & (c->ninstr - 1)) == 0)
        c->instr = realloc(c->instr, (c->ninstr ? 2 * (size_t)c->ninstr : 1) * sizeof *c->instr);
    struct ptx_instr *i = &c->instr[c->ninstr++];
    *i = (struct ptx_instr){.guard = -1, .line = r->text.line};
    return i;
}

static void emit_copy(struct reader *r, int to, int from)
{
    struct ptx_instr *i = new_instr(r);
    i->op = ptx_mov;
    i->kind = (struct ptx_kind){PTX_B, 64};
    i->out[0] = to;
    i->in[0] = from;
    i->nout = i->nin = 1;
}

/* [name+4], {%r1, %r2}, %p1|%p2 or a word; `end` is what comes behind it. */
static struct operand read_operand(struct reader *r, const char *word, char end[PTX_WORD])
{
    struct operand o = {.n = 1};
    char part[PTX_WORD];
    if (strcmp(word, "{") == 0) {
        for (o.n = 0; strcmp(word, "}") != 0 && o.n < 4; word = end) {
            ptx_next(&r->text, part);
            o.row[o.n++] = ptx_row_of(r, part);
            ptx_next(&r->text, end);
        }
        ptx_next(&r->text, end);
    } else if (strcmp(word, "[") == 0) {
        ptx_next(&r->text, part);
        o.address = true;
        o.parameter = ptx_name(r, part)->word[0] != '\0' && ptx_name(r, part)->is == PARAMETER;
        o.row[0] = ptx_row_of(r, part);
        ptx_next(&r->text, end);
        if (strcmp(end, "+") == 0) {
            ptx_next(&r->text, part);
            ptx_number(part, (uint64_t *)&o.offset);
            ptx_next(&r->text, end);
        }
        ptx_next(&r->text, end);
    } else {
        o.row[0] = ptx_row_of(r, word);
        ptx_next(&r->text, end);
        if (strcmp(end, "|") == 0) {
            ptx_next(&r->text, part);
            o.row[o.n++] = ptx_row_of(r, part);
            ptx_next(&r->text, end);
        }
    }
    return o;
}

static int read_operands(struct reader *r, struct operand *o)
{
    char word[PTX_WORD], end[PTX_WORD] = ",";
    int n = 0;
    while (strcmp(end, ",") == 0 && n < PTX_OPERANDS) {
        ptx_next(&r->text, word);
        if (strcmp(word, ";") == 0)
            return n;
        o[n++] = read_operand(r, word, end);
    }
    if (strcmp(end, ";") != 0)
        ptx_refuse(&r->text, end, "stands where an instruction should end");
    return n;
}

static void put_operands(struct reader *r, struct ptx_instr *i, const struct operand *o, int n)
{
    const bool stores = i->op == ptx_st || i->op == ptx_bar;
    if (i->op == ptx_mov && n == 2 && (o[0].n > 1 || o[1].n > 1))
        i->op = o[0].n > 1 ? ptx_unpack : ptx_pack;
    for (int k = 0; k < n; k++) {
        if (o[k].address)
            i->offset = o[k].offset;
        for (int e = 0; e < o[k].n; e++)
            if (k == 0 && !stores)
                i->out[i->nout++] = o[k].row[e];
            else if (i->nin < PTX_OPERANDS)
                i->in[i->nin++] = o[k].row[e];
            else
                ptx_refuse(&r->text, "an instruction", "has too many operands");
    }
    if (i->op == ptx_setp && i->nout > 1)
        ptx_refuse(&r->text, "setp", "with two results is not known here");
    if (i->op == ptx_bar && !i->warp && n != 1)
        ptx_refuse(&r->text, "bar", "with a number of threads is not known here");
    /* Parameters of functions are rows: what looks like memory is not. */
    if (n == 2 && o[i->op == ptx_ld].address && o[i->op == ptx_ld].parameter) {
        if (i->offset != 0 || i->vector != 1 || i->space != PTX_PARAM)
            ptx_refuse(&r->text, "a parameter", "is read or written in part");
        if (i->op == ptx_st) {
            i->out[i->nout++] = i->in[0];
            i->in[0] = i->in[--i->nin];
        }
        i->op = ptx_mov;
    }
}

/* call.uni (retval0), name, (param0, param1); the word is behind "call.uni" */
static void read_call(struct reader *r, char word[PTX_WORD])
{
    int result = -1, given[8], n = 0;
    if (strcmp(word, "(") == 0) {
        ptx_next(&r->text, word);
        result = ptx_row_of(r, word);
        ptx_expect(&r->text, ")");
        ptx_expect(&r->text, ",");
        ptx_next(&r->text, word);
    }
    const struct name *name = ptx_name(r, word);
    if (name->word[0] == '\0' || name->is != FUNCTION)
        ptx_refuse(&r->text, word, "is called and not known");
    const struct function *f = &r->functions[name->number];
    for (ptx_next(&r->text, word); strcmp(word, ";") != 0; ptx_next(&r->text, word))
        if (!strchr("(),", word[0]) && n < 8)
            given[n++] = ptx_row_of(r, word);
    if (n != f->nformal || (result >= 0 && f->result < 0))
        ptx_refuse(&r->text, name->word, "is called with other parameters than it has");
    for (int k = 0; k < n; k++)
        emit_copy(r, f->formal[k], given[k]);
    struct ptx_instr *i = new_instr(r);
    i->op = ptx_call;
    i->target = f->first;
    i->out[i->nout++] = f->back;
    if (result >= 0)
        emit_copy(r, result, f->result);
}

static void read_instr(struct reader *r, char word[PTX_WORD])
{
    struct operand o[PTX_OPERANDS];
    int guard = -1;
    bool not = false;
    if (strcmp(word, "@") == 0) {
        ptx_next(&r->text, word);
        not = strcmp(word, "!") == 0;
        if (not )
            ptx_next(&r->text, word);
        guard = ptx_row_of(r, word);
        ptx_next(&r->text, word);
    }
    if (strncmp(word, "call", 4) == 0 && guard < 0) {
        ptx_next(&r->text, word);
        read_call(r, word);
        return;
    }
    struct ptx_instr i = {.guard = guard, .guard_not = not, .line = r->text.line};
    ptx_mnemonic(&r->text, word, &i);
    if (i.op == ptx_bra) { /* the label's name is kept until the function's end */
        ptx_next(&r->text, word);
        i.target = (int)(ptx_name(r, word) - r->names);
        if (ptx_name(r, word)->word[0] == '\0')
            ptx_set_name(r, word, LABEL, UINT64_MAX);
        ptx_expect(&r->text, ";");
    } else
        put_operands(r, &i, o, read_operands(r, o));
    if (i.op == ptx_ret && !r->in)
        i.op = ptx_exit;
    else if (i.op == ptx_ret)
        i.in[i.nin++] = r->in->back;
    *new_instr(r) = i;
}

/* Up to the bracket that closes it. */
static void read_body(struct reader *r)
{
    char word[PTX_WORD];
    const int first = r->code->ninstr;
    for (int depth = 1; depth > 0;) {
        ptx_next(&r->text, word);
        if (strcmp(word, "{") == 0)
            depth++;
        else if (strcmp(word, "}") == 0)
            depth--;
        else if (word[0] == '\0')
            ptx_refuse(&r->text, "the file", "ends in a function");
        else if (!declare(r, word)) {
            if (*r->text.at == ':') {
                r->text.at++;
                ptx_set_name(r, word, LABEL, (uint64_t)r->code->ninstr);
            } else
                read_instr(r, word);
        }
    }
    for (struct ptx_instr *i = r->code->instr + first; i < r->code->instr + r->code->ninstr; i++)
        if (i->op == ptx_bra) {
            if (r->names[i->target].number == UINT64_MAX)
                ptx_refuse(&r->text, r->names[i->target].word, "is a label that is nowhere");
            i->target = (int)r->names[i->target].number;
        }
}

/* (.param .b32 a, .param .b32 b), behind its bracket: the rows of what is there. */
static int read_formals(struct reader *r, int row[8])
{
    char word[PTX_WORD], name[PTX_WORD];
    uint64_t align;
    int n = 0;
    for (ptx_next(&r->text, word); strcmp(word, ")") != 0; ptx_next(&r->text, word))
        if (strcmp(word, ".param") == 0 && n < 8) {
            declared(r, name, &align);
            row[n] = r->rows++;
            ptx_set_name(r, name, PARAMETER, (uint64_t)row[n++]);
        }
    return n;
}

/* .func (.param .b32 result) name(.param .b32 a, ...) {, behind its first word */
static void read_function(struct reader *r)
{
    char word[PTX_WORD];
    int result[8] = {-1};
    ptx_forget_names(r);
    ptx_next(&r->text, word);
    if (strcmp(word, "(") == 0) {
        read_formals(r, result);
        ptx_next(&r->text, word);
    }
    if (r->nfunctions == MAX_FUNCTIONS || r->code->function_starts < r->code->nstart)
        ptx_refuse(&r->text, word, "is one function too many, or comes behind a kernel");
    struct function *f = r->in = &r->functions[r->nfunctions];
    f->first = r->code->ninstr;
    f->result = result[0];
    f->back = r->rows++;
    ptx_set_module_name(r, word, FUNCTION, (uint64_t)r->nfunctions++);
    ptx_expect(&r->text, "(");
    f->nformal = read_formals(r, f->formal);
    ptx_expect(&r->text, "{");
    read_body(r);
    r->code->function_starts = r->code->nstart;
}

/* .entry name(.param .align 8 .b8 name_param_0[232]) .maxntid 256, 1, 1 {, behind its first word */
static struct ptx_kernel *read_kernel(struct reader *r)
{
    struct ptx_kernel *k = calloc(1, sizeof *k);
    char word[PTX_WORD], name[PTX_WORD];
    uint64_t align, threads = 0;
    const int rows = r->rows; /* of functions */
    ptx_forget_names(r);
    r->in = NULL;
    r->shared = 0;
    ptx_next(&r->text, word);
    k->kernel.name = strdup(word);
    ptx_expect(&r->text, "(");
    ptx_expect(&r->text, ".param");
    k->kernel.job_size = declared(r, name, &align);
    ptx_set_name(r, name, CONSTANT, 0);
    ptx_expect(&r->text, ")");
    ptx_expect(&r->text, ".maxntid");
    ptx_next(&r->text, word);
    if (!ptx_number(word, &threads))
        ptx_refuse(&r->text, word, "is no number of threads");
    while (strcmp(word, "{") != 0)
        ptx_next(&r->text, word);
    k->kernel.threads = (int)threads;
    k->code = r->code;
    k->traffic = calloc(1, sizeof *k->traffic);
    k->first = r->code->ninstr;
    k->first_start = r->code->nstart;
    read_body(r);
    k->end_start = r->code->nstart;
    k->rows = r->rows;
    k->kernel.fixed_shared = r->shared;
    r->rows = rows;
    return k;
}

/* .global .align 4 .b8 name[24] = {65, 144}; behind its first word */
static void read_variable(struct reader *r)
{
    char name[PTX_WORD], word[PTX_WORD];
    uint64_t align, value;
    const uint64_t bytes = declared(r, name, &align);
    unsigned char *at = calloc(1, bytes), *next = at;
    for (ptx_next(&r->text, word); strcmp(word, ";") != 0; ptx_next(&r->text, word))
        if (ptx_number(word, &value) && next < at + bytes)
            *next++ = (unsigned char)value;
    struct ptx_constant *c = malloc(sizeof *c);
    *c = (struct ptx_constant){(const char *)at, bytes, r->code->constants};
    r->code->constants = c;
    ptx_set_module_name(r, name, CONSTANT, (uint64_t)(uintptr_t)at);
}

bool ptx_is_constant(const struct ptx_code *code, const char *at, uint64_t bytes)
{
    for (const struct ptx_constant *c = code->constants; c; c = c->next)
        if (at >= c->at && at + bytes <= c->at + c->bytes)
            return true;
    return false;
}

static char *whole_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t n = 0;
    if (!f || getdelim(&text, &n, '\0', f) < 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        abort();
    }
    fclose(f);
    return text;
}

struct ptx_kernel *ptx_read(const char *path, struct ptx_kernel *others)
{
    char *text = whole_file(path), word[PTX_WORD], name[PTX_WORD];
    struct reader r = {.text = {path, text, 1}, .code = calloc(1, sizeof *r.code)};
    uint64_t align;
    r.code->path = strdup(path);
    r.names = calloc(MAX_NAMES, sizeof *r.names);
    for (ptx_next(&r.text, word); word[0] != '\0'; ptx_next(&r.text, word))
        if (strcmp(word, ".func") == 0)
            read_function(&r);
        else if (strcmp(word, ".entry") == 0) {
            struct ptx_kernel *k = read_kernel(&r);
            k->next = others;
            others = k;
        } else if (strcmp(word, ".global") == 0)
            read_variable(&r);
        else if (strcmp(word, ".extern") == 0) {
            ptx_expect(&r.text, ".shared");
            declared(&r, name, &align);
            ptx_set_module_name(&r, name, DYNAMIC, 0);
        }
    free(r.names);
    for (int i = 0; i < r.nmodule; i++)
        free(r.module[i]);
    free(text);
    return others;
}
