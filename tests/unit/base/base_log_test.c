/* Does the log go on where nobody reads standard error? */
#define _GNU_SOURCE

#include <test.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static int ends[2], kept;

static void hold_stderr(void)
{
    kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 16384) >= 16384);
    dup2(ends[1], STDERR_FILENO);
}

static void give_back(void)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[0]);
    close(ends[1]);
}

static uint32_t read_lines(char *out, size_t size)
{
    uint32_t lines = 0;
    const ssize_t n = read(ends[0], out, size - 1);
    out[n > 0 ? n : 0] = 0;
    for (const char *at = out; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

/* Of 1000 lines that nobody reads, how many have been written; `said` gets what follows them. */
static uint32_t write_unread(int level, char said[1 << 20])
{
    alarm(250); /* a write that waits would wait for ever */
    log_setup(WEFT_LOG_INFO, -1);
    hold_stderr();
    for (int i = 0; i < 1000; i++)
        log_line(level, "line %d is as long as lines of the log often are, or longer", i);
    const uint32_t written = read_lines(said, 1 << 20);
    log_line(level, "the next one");
    assert_int_equal(read_lines(said, 1 << 20), 2);
    give_back();
    assert_true(written > 10 && written < 1000);
    return written;
}

TEST(lines_are_dropped_and_counted)
{
    static char said[1 << 20];
    char lost[64];
    const uint32_t written = write_unread(WEFT_LOG_INFO, said);
    snprintf(lost, sizeof lost, "weft warn: %u lines of the log are lost", 1000 - written);
    assert_memory_equal(said, lost, strlen(lost));
    assert_non_null(strstr(said, "weft info: the next one\n"));
}

/* An error waits for a slow reader, once; then it is lost like other lines. */
TEST(errors_are_dropped_too)
{
    static char said[1 << 20];
    (void)write_unread(WEFT_LOG_ERROR, said);
    assert_non_null(strstr(said, "weft error: the next one\n"));
}

/* What "text" becomes on a terminal or a pipe, after log_add_time(). */
static void say(bool terminal, char out[256])
{
    char when[32];
    hold_stderr();
    const int screen = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(screen >= 0 && !grantpt(screen) && !unlockpt(screen));
    const int line = open(ptsname(screen), O_RDWR | O_NOCTTY);
    assert_true(line >= 0);
    if (terminal)
        dup2(line, STDERR_FILENO);
    log_add_time();
    log_line(WEFT_LOG_INFO, "text");
    assert_int_equal(strlen(log_time(when)), terminal ? 0 : strlen("2026-11-29T02:03:04.123Z "));
    size_t at = 0; /* a terminal hands a line on in parts */
    for (ssize_t n = 1; n > 0 && at < 255 && (!at || out[at - 1] != '\n');
         at += n > 0 ? (size_t)n : 0)
        n = read(terminal ? screen : ends[0], out + at, 255 - at);
    out[at] = 0;
    give_back();
    close(line);
    close(screen);
}

TEST(lines_of_a_file_have_the_time)
{
    char said[256];
    unsigned year, month, day, hour, minute, second, ms;
    int end = 0;
    alarm(250);
    log_setup(WEFT_LOG_INFO, 3);
    say(true, said);
    assert_string_equal(said, "weft rank 3 info: text\r\n");
    say(false, said);
    assert_int_equal(sscanf(said, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ weft rank 3 info: text%n", &year,
                            &month, &day, &hour, &minute, &second, &ms, &end),
                     7);
    assert_string_equal(said + end, "\n");
}
