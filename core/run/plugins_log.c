/* run/plugins_log.c: see plugins_log.h. */
#include "run/plugins_log.h"

#include "base/err.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of PLACE in "PLACE/KIND/NAME.so". */
static size_t place_length(const char *path)
{
    size_t n = strlen(path);
    for (int up = 0; up < 2; up++)
        while (n && path[--n] != '/')
            ;
    return n;
}

void run_log_plugins(const spec *s)
{
    const host_file *files;
    uint32_t n = 0;
    size_t bytes, before = 0;
    char *line = NULL;
    FILE *to = open_memstream(&line, &bytes);
    if (to && host_used_files(s->host, false, &files, &n) != WEFT_OK)
        err_clear();
    for (uint32_t i = 0; i < n; i++) {
        const size_t place = place_length(files[i].path);
        if (!i || place != before || strncmp(files[i].path, files[i - 1].path, place))
            fprintf(to, "%sfrom %.*s:", i ? "; " : "", (int)place, files[i].path);
        before = place;
        const char *name = files[i].path + place + 1;
        fprintf(to, " %.*s", (int)strlen(name) - 3, name);
    }
    if (to)
        fclose(to);
    if (n)
        log_line(WEFT_LOG_INFO, "plugins %s", line);
    free(line);
    if (s->comm_choice)
        log_line(WEFT_LOG_INFO, "%s", s->comm_choice);
}
