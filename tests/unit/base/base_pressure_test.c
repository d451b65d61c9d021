/* Does the clock of deadlines stay behind the machine's, whichever thread is held up in it? */
#include <stdbool.h>

#include <test.h>

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/time/pressure.h"

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);

static _Thread_local bool slow;

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* A thread that is slow loses its core right after it has read the clock. */
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    const int n = __real_clock_gettime(id, t);
    if (slow)
        nap(70);
    return n;
}

/* Returns the largest answer. */
static void *look_slowly(void *unused)
{
    uint64_t max = 0;
    (void)unused;
    slow = true;
    for (int i = 0; i < 8; i++) {
        const uint64_t counted = pressure_ms();
        max = counted > max ? counted : max;
    }
    return (void *)(uintptr_t)max;
}

TEST(no_thread_moves_it_ahead)
{
    pthread_t thread[4];
    const uint64_t began = clock_ms(), first = pressure_ms();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, look_slowly, NULL), 0);
    for (int i = 0; i < 100; i++) {
        const uint64_t counted = pressure_ms() - first;
        assert_true(counted <= clock_ms() - began);
        nap(5);
    }
    for (int i = 0; i < 4; i++) {
        void *max;
        pthread_join(thread[i], &max);
        assert_true((uintptr_t)max - first <= clock_ms() - began);
    }
    const uint64_t all = pressure_ms() - first, passed = clock_ms() - began;
    assert_true(all <= passed && all >= passed / PRESSURE_MAX / 2);
}
