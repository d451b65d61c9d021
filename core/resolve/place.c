/* resolve/place.c: the line of the INI that a plugin's message is about. The plugin knows keys, the
 * config where they are. */
#include "base/err.h"
#include "resolve/internal.h"

#include <string.h>

bool resolve_add_place(const config *cfg, const host_component *c, const char *section)
{
    const size_t n = strlen(section);
    const char *named = err_name(ERR_KEY);
    if (strncmp(named, section, n) != 0 || named[n] != '.')
        return false;
    for (const weft_option *const *o = c->options; *o; o++)
        if (!strcmp((*o)->key, named + n + 1)) {
            err_context("%s", config_where(cfg, named));
            return true;
        }
    return false;
}
