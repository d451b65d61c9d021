/* ptx_names.h: what names of PTX stand for while a file is read (ptx_read.c). */
#ifndef PTX_NAMES_H
#define PTX_NAMES_H

#include "ptx.h"

struct function {
    int first; /* instruction */
    int formal[8], nformal;
    int result, back; /* rows of what it returns, and of where it goes on afterwards */
};

struct name {
    char word[PTX_WORD];
    enum {
        ROW,
        ROWS,      /* "%r": %r0, %r1 and so on, from the row that is the number */
        PARAMETER, /* a row, in the place of memory */
        LABEL,     /* an instruction */
        CONSTANT,  /* becomes a row where it is used */
        DYNAMIC,
        FUNCTION, /* its index */
    } is;
    uint64_t number;
};

enum { MAX_NAMES = 1 << 15, MAX_FUNCTIONS = 16 };

struct reader {
    struct ptx_text text;
    struct ptx_code *code;
    struct name *names; /* a table by hash; words are "" where it is free */
    struct name *module[64];
    int nmodule;                                   /* names that outlive a function */
    struct function functions[MAX_FUNCTIONS], *in; /* in: NULL in a kernel */
    int nfunctions, rows;
    uint64_t shared;
};

/* The place of a name, which is free (its word is "") where it is not known. */
struct name *ptx_name(struct reader *r, const char *word);
void ptx_set_name(struct reader *r, const char *word, int is, uint64_t number);
/* Of the whole file. */
void ptx_set_module_name(struct reader *r, const char *word, int is, uint64_t number);
/* A function begins: only names of the file are left. */
void ptx_forget_names(struct reader *r);
/* The row of a register, or of a constant, which becomes one. */
int ptx_row_of(struct reader *r, const char *word);

#endif
