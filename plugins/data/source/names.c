/* names.c: see source.h. */
#include <string.h>

#include "source.h"

static bool is_escape(const char *at)
{
    return at[0] == '\\' && (at[1] == ',' || at[1] == '\\');
}

static size_t span(const char *list)
{
    size_t n = 0;
    while (list[n] && list[n] != ',')
        n += is_escape(list + n) ? 2 : 1;
    return n;
}

uint32_t source_names_count(const char *list)
{
    uint32_t n = 1;
    for (list += span(list); *list; list += span(list)) {
        list++;
        n++;
    }
    return n;
}

bool source_names_next(const char **list, char *out, size_t size)
{
    const char *at = *list + strspn(*list, " \t");
    size_t n = span(at), used = 0;
    *list = at + n + (at[n] == ',');
    while (n && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    for (size_t i = 0; i < n && used + 1 < size; i++) {
        i += is_escape(at + i);
        out[used++] = at[i];
    }
    out[used] = 0;
    return used + 1 < size;
}
