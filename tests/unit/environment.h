/* environment.h: an environment that a launcher of somebody else's would have made. */
#ifndef UNIT_ENVIRONMENT_H
#define UNIT_ENVIRONMENT_H

#include <stdlib.h>
#include <string.h>

/* These settings alone: "NAME=VALUE NAME=VALUE". */
static void set_environment(const char *settings)
{
    clearenv();
    char text[1024];
    strncpy(text, settings, sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (char *at = NULL, *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        char *value = strchr(word, '=');
        *value = 0;
        setenv(word, value + 1, 1);
    }
}

#endif
