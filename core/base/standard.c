/* base/standard.c: see standard.h. */
#include "base/standard.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

void standard_fill(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        fcntl(fd, F_SETFD, 0);
    if (fd >= 0)
        close(fd);
}

int standard_answered(int status)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    const bool whole = !fflush(stdout) && !ferror(stdout);
    if (status || whole || (poll(&out, 1, 0) == 1 && out.revents & POLLERR))
        return status;
    log_line(WEFT_LOG_ERROR, "standard output could not be written (is its disk full?): the answer "
                             "is incomplete");
    return 1;
}
