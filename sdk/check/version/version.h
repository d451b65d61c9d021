/* check/version/version.h: checks of plugins in hosts of other versions; private to this folder. */
#ifndef CHECK_VERSION_VERSION_H
#define CHECK_VERSION_VERSION_H

#include "check/exercise/exercise.h"

/* sizes.c: shorter and longer structs. */
void check_version_host(check_run *r);
void check_version_tables(check_run *r);
void check_version_args(check_run *r);
void check_version_later(check_run *r);
void check_version_asks(check_run *r);
void check_version_out(check_run *r);

/* unknown.c: what a later version may say. */
void check_version_unknown(check_run *r);
void check_version_status(check_run *r);

/* optional.c: what a host may leave out. */
void check_version_optional(check_run *r);
void check_version_bare(check_run *r);

/* The names of what a life lends: types of argument structs, then other values. Returns how many.
 */
uint32_t check_version_lent(check_run *r, const char *out[2 * CHECK_LEND_TYPES], uint32_t *types);

/* A life in which what is called `name` is altered: it has to be refused with a sentence. `what`
 * says how, for messages: "has a non-zero tail". */
void check_version_refuses(check_run *r, check_lend_mode mode, const char *name, const char *what);

#endif
