/* ckpt/place.c: where the save under way is: one per process, used by one thread at a time. Its
 * folder is opened once, so all files of the save are in it, whatever is renamed meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ckpt/internal.h"

static struct {
    int folder; /* OUT/checkpoints; -1: no save */
    int lock;   /* holds its flock; -1: another rank does */
    char temp[CKPT_PATH_MAX];
} place = {-1, -1, ""};

const char *ckpt_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_placed(const char *temp)
{
    return place.folder >= 0 && !strcmp(temp, place.temp);
}

weft_status ckpt_place_free(void)
{
    return place.folder < 0
               ? WEFT_OK
               : err_fail(WEFT_INTERNAL, "a checkpoint is started while %s is in progress",
                          place.temp);
}

void ckpt_place_set(int folder, int lock, const char *temp)
{
    place.folder = folder;
    place.lock = lock;
    snprintf(place.temp, sizeof place.temp, "%s", temp);
}

void ckpt_place_end(const char *temp)
{
    if (!is_placed(temp))
        return;
    close(place.folder);
    if (place.lock >= 0)
        close(place.lock); /* gives up the flock */
    place.folder = place.lock = -1;
}

int ckpt_place_parent(const char *temp)
{
    char parent[CKPT_PATH_MAX];
    if (is_placed(temp))
        return openat(place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(parent, sizeof parent, "%.*s.", (int)(ckpt_last_part(temp) - temp), temp);
    return open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int ckpt_place_open(const char *temp)
{
    const bool placed = is_placed(temp);
    return openat(placed ? place.folder : AT_FDCWD, placed ? ckpt_last_part(temp) : temp,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}
