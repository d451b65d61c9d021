/* check/exercise/lend.c: see lend.h. Copies that end at a guard page are kept, so that a plugin may
 * look at them as long as it likes; those of CHECK_LEND_POISON lose their access. */
#include "check/exercise/lend.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MORE 64u /* bytes of a later version */

static uint32_t size_of(const void *sized)
{
    return *(const uint32_t *)sized;
}

static void *copy_of(check_lend *l, const void *from, size_t bytes)
{
    void *p = check_guard(from, bytes);
    *vec_push(&l->lent) = (check_lent){p, bytes};
    return p;
}

/* A copy with MORE bytes behind it, zero but for the last where the struct asks for something. */
static void *grown(const void *from, bool asks)
{
    const uint32_t size = size_of(from), now = size + MORE;
    unsigned char *p = check_guard(NULL, now);
    memcpy(p, from, size);
    memcpy(p, &now, sizeof now);
    p[now - 1] = asks;
    return p;
}

static void note(const char **list, uint32_t *n, const char *name)
{
    for (uint32_t i = 0; i < *n; i++)
        if (!strcmp(list[i], name))
            return;
    if (*n < CHECK_LEND_TYPES)
        list[(*n)++] = name;
}

/* Whether what is lent now is to be altered: the first of the chosen name. */
static bool is_chosen(check_lend *l, const char *name)
{
    if ((l->mode != CHECK_LEND_ASKS && l->mode != CHECK_LEND_FLAGS) || l->altered ||
        strcmp(l->type, name) != 0)
        return false;
    l->asked = l->altered = true;
    return true;
}

uint32_t check_lend_value(check_lend *l, const char *what, uint32_t usual, uint32_t odd)
{
    note(l->values, &l->nvalues, what);
    return is_chosen(l, what) ? odd : usual;
}

const void *check_lend_struct(check_lend *l, const void *from, const char *type)
{
    note(l->types, &l->ntypes, type);
    const bool chosen = is_chosen(l, type);
    if (chosen && l->mode == CHECK_LEND_ASKS)
        return grown(from, true);
    if (chosen) {
        uint32_t *p = check_guard(from, size_of(from));
        p[1] |= CHECK_LEND_FLAG;
        return p;
    }
    if (l->mode == CHECK_LEND_CUT_ARGS || l->mode == CHECK_LEND_POISON)
        return copy_of(l, from, size_of(from));
    return l->mode == CHECK_LEND_GROWN ? grown(from, false) : from;
}

weft_status check_lend_later(void)
{
    return err_fail(WEFT_UNSUPPORTED, "the check has no function behind the table of this version");
}

const void *check_lend_table(check_lend *l, const void *from)
{
    if (l->mode == CHECK_LEND_CUT_TABLES || l->mode == CHECK_LEND_POISON)
        return copy_of(l, from, size_of(from));
    if (l->mode != CHECK_LEND_GROWN)
        return from;
    weft_status (*const later)(void) = check_lend_later;
    unsigned char *p = grown(from, false);
    for (uint32_t at = size_of(from); l->offers && at < size_of(p); at += sizeof later)
        memcpy(p + at, &later, sizeof later);
    return p;
}

const void *check_lend_bytes(check_lend *l, const void *from, size_t bytes)
{
    return from && bytes && l->mode == CHECK_LEND_POISON ? copy_of(l, from, bytes) : from;
}

const char *check_lend_text(check_lend *l, const char *from)
{
    return from ? check_lend_bytes(l, from, strlen(from) + 1) : NULL;
}

void *check_lend_out(check_lend *l, void *from)
{
    if (l->mode == CHECK_LEND_CUT_OUT)
        return check_guard(from, size_of(from));
    return l->mode == CHECK_LEND_GROWN ? grown(from, false) : from;
}

void check_lend_filled(check_lend *l, void *to, const void *out, const char *type)
{
    const unsigned char *bytes = out;
    const uint32_t capacity = size_of(to) + (l->mode == CHECK_LEND_GROWN ? MORE : 0);
    if (out == to)
        return;
    if (size_of(out) > capacity)
        check_fail("struct_size of a %s was %u on entry and %u after the call; an answer is no "
                   "longer than its room (weft_give())",
                   type, capacity, size_of(out));
    for (uint32_t i = size_of(out); i < capacity; i++)
        if (bytes[i])
            check_fail("the answer in a %s has %u bytes by its struct_size, and byte %u was "
                       "written, too",
                       type, size_of(out), i);
    const uint32_t size = size_of(to);
    memcpy(to, out, size);
    memcpy(to, &size, sizeof size);
}

weft_status check_lend_end(check_lend *l, weft_status st)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; l->mode == CHECK_LEND_POISON && i < l->lent.n; i++) {
        char *first = (char *)((uintptr_t)l->lent.at[i].at / page * page);
        const size_t bytes = l->lent.at[i].bytes + (size_t)((char *)l->lent.at[i].at - first);
        mprotect(first, (bytes + page - 1) / page * page, PROT_NONE);
    }
    l->lent.n = 0;
    if (l->asked)
        l->answer = st;
    l->asked = false;
    return st;
}
