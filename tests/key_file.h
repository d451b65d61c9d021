/* tests/key_file.h: a file with a fresh job key, as `weft key` writes it, for ranks of a test. */
#ifndef TESTS_KEY_FILE_H
#define TESTS_KEY_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Writes the new file. */
static inline void key_file_write(const char *path)
{
    unsigned long long key[4];
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || getrandom(key, sizeof key, 0) != sizeof key ||
        dprintf(fd, "%016llx%016llx%016llx%016llx\n", key[0], key[1], key[2], key[3]) != 65)
        abort();
    close(fd);
}

#endif
