/* resolve/place.c: the line of the INI that a plugin's message is about. The plugin knows keys, the
 * config where they are. */
#include "base/err.h"
#include "resolve/internal.h"

#include <stdio.h>
#include <string.h>

bool resolve_add_place(const config *cfg, const component *c, const char *section)
{
    const char *first = NULL, *text = err_text();
    char key[128], place[128] = "";
    for (const weft_option *const *o = c->options; *o; o++) {
        const int n = snprintf(key, sizeof key, "%s.%s", section, (*o)->key);
        const char *at = strstr(text, key);
        const bool ends = at && !strchr("abcdefghijklmnopqrstuvwxyz0123456789_", at[n]);
        if (ends || (at && !at[n])) {
            if (!first || at < first)
                memcpy(place, key, sizeof place);
            first = !first || at < first ? at : first;
        }
    }
    if (first)
        err_context("%s", config_where(cfg, place));
    return first;
}
