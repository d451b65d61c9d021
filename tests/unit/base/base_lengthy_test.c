/* Does work that takes long say how far it is, as often as it should and no oftener? */

#include <test.h>

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lengthy.h"
#include "base/log.h"

static char said[4096];

#define HOUR_MS 3600000u

/* Standard error of 64 additions of 1 MiB, of which each 16th is due when `due`, and no other one,
 * however slow the machine is. */
static void work(int rank, int due)
{
    int ends[2], kept = dup(STDERR_FILENO);
    lengthy l;
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_setup(WEFT_LOG_INFO, rank);
    const uint64_t before = clock_ms();
    lengthy_begin(&l, "the thing is read", 64 << 20);
    assert_true(l.due_ms >= before + l.every_ms && l.every_ms >= 1000);
    for (int i = 0; i < 64; i++) {
        l.due_ms = clock_ms() + (due && i % 16 == 0 ? 0 : HOUR_MS);
        lengthy_add(&l, 1 << 20);
    }
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
}

TEST(short_work_is_silent)
{
    work(-1, 0);
    assert_string_equal(said, "");
}

TEST(long_work_speaks)
{
    work(-1, 1);
    assert_string_equal(said, "weft info: the thing is read: 1 of 64 MiB\n"
                              "weft info: the thing is read: 17 of 64 MiB\n"
                              "weft info: the thing is read: 33 of 64 MiB\n"
                              "weft info: the thing is read: 49 of 64 MiB\n");
}

TEST(other_ranks_speak_less_often)
{
    lengthy zero, one;
    log_setup(WEFT_LOG_INFO, 0);
    lengthy_begin(&zero, "x", 1);
    log_setup(WEFT_LOG_INFO, 1);
    lengthy_begin(&one, "x", 1);
    assert_true(zero.every_ms >= 1000 && one.every_ms >= 5 * zero.every_ms);
}
