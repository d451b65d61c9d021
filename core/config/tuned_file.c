/* config/tuned_file.c: the file that comm.tuned names, as `weft tune comm` writes it.
 *
 * It is a separate INI text, read after the job and the command line, which both take precedence.
 * It may have only the keys that describe how ranks communicate, so that a file of measurements
 * never changes what is trained, and none that names code. Errors name the file and the line. The
 * first line has the version of the format, as a comment that any program accepts; a file without
 * it has version 1. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/version.h"
#include "config/source.h"
#include "config/store.h"

static weft_status read_file(const char *path, char **out, size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_fail_errno(WEFT_USAGE, "cannot open the file %s", path);
    weft_status st = config_read_all(fd, false, "file", path, out, bytes);
    close(fd);
    return st;
}

static bool is_of_comm(const char *section)
{
    return !strcmp(section, "comm") || !strncmp(section, "comm.", 5);
}

static weft_status check(const config *f)
{
    for (uint32_t i = 0; i < f->sections.n; i++)
        if (!is_of_comm(f->sections.at[i].section))
            return err_fail(WEFT_USAGE,
                            "%s:%u: [%s] is not allowed in a file of comm.tuned; only [comm] and "
                            "[comm.NAME] are",
                            f->name, f->sections.at[i].line, f->sections.at[i].section);
    for (uint32_t i = 0; i < f->entries.n; i++)
        if (config_names_code(f->entries.at[i].section, f->entries.at[i].key))
            return err_fail(WEFT_USAGE,
                            "%s:%u: %s is not allowed in a file of comm.tuned: it names code, and "
                            "a file of measurements does not say which code is loaded",
                            f->name, f->entries.at[i].line, f->entries.at[i].key);
    const config_setting *e = config_entry(f, "comm", "tuned");
    if (e)
        return err_fail(WEFT_USAGE, "%s:%u: a file of comm.tuned cannot name another one", f->name,
                        e->line);
    if (!f->entries.n)
        return err_fail(WEFT_USAGE, "%s has no keys; weft tune comm -o FILE writes one that has",
                        f->name);
    return WEFT_OK;
}

static void take(config *c, const config *f)
{
    for (uint32_t i = 0; i < f->entries.n; i++) {
        config_setting e = f->entries.at[i];
        if (config_entry(c, e.section, e.key))
            continue;
        config_note_section(c, e.section, 0);
        e.file = f->name;
        e.tuned = true;
        config_put(c, e);
    }
}

weft_status config_read_tuned(config *c)
{
    const config_setting *named = config_entry(c, "comm", "tuned");
    char *text = NULL;
    size_t bytes = 0;
    if (!named || !*named->value)
        return WEFT_OK;
    weft_status st = read_file(named->value, &text, &bytes);
    if (st != WEFT_OK) {
        err_context("%s: comm.tuned", config_place(c, named));
        return st;
    }
    config *f = config_new(named->value);
    st = version_check("the tuned file", version_after(text, bytes, CONFIG_TUNED_MARK),
                       CONFIG_TUNED_VERSION);
    if (st != WEFT_OK)
        err_context("%s", named->value);
    else
        st = config_read_ini(f, text, bytes);
    free(text);
    if (st == WEFT_OK)
        st = check(f);
    if (st == WEFT_OK)
        take(c, f);
    config_destroy(f);
    return st;
}
