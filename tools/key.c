/* key.c: weft key. */
#define _GNU_SOURCE
#include "job/wire/key.h"
#include "base/err.h"
#include "base/number/hex.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE (2 * KEY_BYTES + 1)

static bool write_line(int fd, const char *text)
{
    return fchmod(fd, 0600) == 0 && write(fd, text, LINE) == LINE && fsync(fd) == 0;
}

/* A key file that exists is not overwritten. */
static weft_status write_key(const char *path)
{
    uint8_t key[KEY_BYTES];
    char text[LINE + 1];
    weft_status st = job_key_random(key, sizeof key);
    if (st != WEFT_OK)
        return st;
    hex_write(key, KEY_BYTES, text);
    text[LINE - 1] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
        st = err_fail(WEFT_USAGE,
                      "the key file '%s' exists already: name a new one, or remove it "
                      "if no job uses it any more",
                      path);
    } else if (fd < 0) {
        st = err_fail_errno(WEFT_USAGE, "cannot create the key file '%s'", path);
    } else {
        bool good = write_line(fd, text);
        if (close(fd) != 0 || !good) {
            st = err_fail_errno(WEFT_IO, "cannot write the key file '%s'", path);
            unlink(path);
        }
    }
    explicit_bzero(key, sizeof key);
    explicit_bzero(text, sizeof text);
    return st;
}

static int key(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "-o"))
        return cli_usage(&cli_cmd_key, "name the output: -o FILE");
    return cli_fail(write_key(argv[2]));
}

const cli_command cli_cmd_key = {
    "key", "-o FILE",
    "Write a fresh job key that only you can read, for ranks that weft train -n did not start.\n"
    "Copy it to every machine and name it as [run] key.",
    key, NULL};
