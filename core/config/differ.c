/* config/differ.c: see differ.h. */
#include "config/differ.h"

#include <string.h>

#include "config/store.h"

void config_set_effect(config *c, const char *section, const weft_option *const *options,
                       uint32_t effect)
{
    for (; options && *options; options++)
        for (uint32_t i = 0; i < c->options.n; i++) {
            config_declaration *d = &c->options.at[i];
            if (!strcmp(d->option->key, (*options)->key) && !strcmp(d->section, section))
                d->effect |= effect;
        }
}

uint32_t config_effect(const config *c, const char *key)
{
    char section[CONFIG_MAX_NAME + 1];
    const config_declaration *d = config_declared(c, section, config_split(key, section));
    return d ? d->effect : 0;
}

/* The same key, declared by somebody earlier. */
static bool is_repeated(const config *c, const config_declaration *d)
{
    for (const config_declaration *x = c->options.at; x < d; x++)
        if (x->effect & CONFIG_BINDS && !strcmp(x->option->key, d->option->key) &&
            !strcmp(x->section, d->section))
            return true;
    return false;
}

/* Is `d` a key of a plugin in a section in which another plugin is named? Then it is compared with
 * no key of the one before. */
static bool of_another_plugin(const config *saved, const config *present,
                              const config_declaration *d)
{
    for (uint32_t i = 0;
         i < present->options.n && !(config_option_effect(d->option) & CONFIG_BINDS); i++) {
        const config_declaration *x = &present->options.at[i];
        if (x->option->type == WEFT_OPT_STRING && config_option_effect(x->option) & CONFIG_BINDS &&
            !strcmp(x->section, d->section) &&
            strcmp(config_value(saved, x), config_value(present, x)))
            return true;
    }
    return false;
}

/* The key params of a parameter group that the present job has not: none of its keys is declared.
 */
static bool is_gone(const config *present, const config_setting *e)
{
    return !strncmp(e->section, "optim.", 6) && !strcmp(e->key, "params") &&
           !config_knows(present, e->section);
}

uint32_t config_changes(const config *saved, const config *present, config_change *out,
                        uint32_t cap)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < present->options.n; i++) {
        const config_declaration *d = &present->options.at[i];
        if (!(d->effect & CONFIG_BINDS) || is_repeated(present, d))
            continue;
        config_change x = {d->section, d->option->key, config_value(saved, d),
                           config_value(present, d)};
        if (config_same_value(d->option, x.saved, x.present) ||
            of_another_plugin(saved, present, d))
            continue;
        if (n < cap)
            out[n] = x;
        n++;
    }
    for (uint32_t i = 0; i < saved->entries.n; i++) {
        const config_setting *e = &saved->entries.at[i];
        if (!is_gone(present, e))
            continue;
        if (n < cap)
            out[n] = (config_change){e->section, e->key, e->value, ""};
        n++;
    }
    return n;
}
