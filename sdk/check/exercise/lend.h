/* check/exercise/lend.h: what a driver lends a plugin for a call: argument structs, tables of the
 * core, strings. They go through these functions, so that a check can alter them as a host of
 * another version would, or make them inaccessible once the call has returned.
 *
 * Order in a call: check_lend_...() for each argument, the call, check_lend_end() with its status.
 */
#ifndef CHECK_EXERCISE_LEND_H
#define CHECK_EXERCISE_LEND_H

#include "base/mem.h"
#include "check/harness/harness.h"

#define CHECK_LEND_TYPES 64u
#define CHECK_LEND_ODD ((weft_status)77) /* a status that no header defines */
#define CHECK_LEND_FLAG 0x80000000u      /* a flag that no header defines */

typedef enum check_lend_mode {
    CHECK_LEND_PLAIN,
    CHECK_LEND_CUT_TABLES, /* builder, view and edits end at a page without access */
    CHECK_LEND_CUT_ARGS,   /* argument structs do */
    CHECK_LEND_CUT_OUT,    /* structs that the plugin fills do */
    CHECK_LEND_GROWN,      /* all are longer, with zeros; see `offers` */
    CHECK_LEND_ASKS,   /* one argument struct, of the type `type`, is longer and not zero there */
    CHECK_LEND_FLAGS,  /* ... has an unknown flag, or one value is unknown */
    CHECK_LEND_POISON, /* after a call, nothing that was lent can be accessed */
    CHECK_LEND_STATUS  /* call `at` of builder, view or edits returns CHECK_LEND_ODD */
} check_lend_mode;

typedef struct check_lent {
    void *at;
    size_t bytes;
} check_lent;

typedef struct check_lend {
    check_lend_mode mode;
    const char *type;                    /* "weft_link_args" */
    uint64_t at, calls;                  /* STATUS: which call; calls so far */
    const char *below;                   /* STATUS: the member that returned it */
    const char *types[CHECK_LEND_TYPES]; /* of argument structs that were lent, each once */
    uint32_t ntypes;
    const char *values[CHECK_LEND_TYPES]; /* of check_lend_value(), each once */
    uint32_t nvalues;
    bool offers;          /* GROWN: the new part of a table is functions */
    bool asked, altered;  /* a struct was altered: for the call that runs, and for one before */
    weft_status answer;   /* of the call that got it */
    const char *inside;   /* STATUS: the edit whose weft_emit got it; NULL: edit() itself */
    VEC(check_lent) lent; /* for the call that runs */
} check_lend;

/* An argument struct: it begins with struct_size and flags. `type` is a constant string. */
const void *check_lend_struct(check_lend *l, const void *from, const char *type);
#define CHECK_LEND(l, type, from) ((const type *)check_lend_struct((l), (from), #type))

/* A flags word or another value: `usual`, or `odd` where `what` is the chosen type. `what` is a
 * constant string, for messages: "the flags of send()". */
uint32_t check_lend_value(check_lend *l, const char *what, uint32_t usual, uint32_t odd);
#define CHECK_FLAGS(d, member)                                                                     \
    check_lend_value(&(d)->lend, "the flags of " #member "()", 0, CHECK_LEND_FLAG)

/* A function of a later version: what the new part of a longer table points to. */
weft_status check_lend_later(void);

/* A table of the core, and memory without a size of its own. */
const void *check_lend_table(check_lend *l, const void *from);
const void *check_lend_bytes(check_lend *l, const void *from, size_t bytes);
const char *check_lend_text(check_lend *l, const char *from); /* NULL stays NULL */

/* A struct that the plugin fills: *from is zero but for its size. After the call,
 * check_lend_filled() copies what was written, and fails the check where that was too much. */
void *check_lend_out(check_lend *l, void *from);
void check_lend_filled(check_lend *l, void *to, const void *out, const char *type);

/* The call has returned `st`, which this returns. */
weft_status check_lend_end(check_lend *l, weft_status st);

/* Builder, view and edits whose calls count, for CHECK_LEND_STATUS; below.c. They live until the
 * next of their kind is asked for. */
struct weft_builder;
struct weft_view;
struct weft_edits;
const struct weft_builder *check_below_builder(check_lend *l, const struct weft_builder *b);
const struct weft_view *check_below_view(check_lend *l, const struct weft_view *v);
const struct weft_edits *check_below_edits(check_lend *l, const struct weft_edits *e);

#endif
