/* Do the threads of the cpu device run each region with exactly the threads that it asks for? And
 * the OpenMP calls of oneDNN, beside each other and in any order? */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/pool.h"

#include <test.h>

#define THREADS 5
#define BARRIERS 7

static _Atomic uint32_t seen; /* bits of the threads that a region has had */
static _Atomic int32_t arrived, wrong;

static void no_begin(void *ctx, int32_t thread)
{
    if (ctx)
        ((atomic_int *)ctx)[thread]++;
}

static cpu_pool *open_pool(int32_t threads)
{
    cpu_pool *p = NULL;
    assert_int_equal(cpu_pool_open(threads, no_begin, NULL, &p), 0);
    return p;
}

static void note(void *data, int32_t thread, int32_t threads)
{
    wrong += threads != *(int32_t *)data || (atomic_fetch_or(&seen, 1u << thread) >> thread & 1);
}

static void expect(uint32_t threads)
{
    assert_int_equal(seen, (1u << threads) - 1);
    assert_int_equal(wrong, 0);
    seen = 0;
}

TEST(test_runs)
{
    for (int32_t n = 1; n <= THREADS; n++) {
        cpu_pool *p = open_pool(n);
        for (int i = 0; i < 1000; i++) {
            cpu_pool_run(p, note, &n);
            expect((uint32_t)n);
            if (i % 500 == 0)
                usleep(5000); /* its threads sleep */
        }
        cpu_pool_close(p);
    }
    cpu_pool_close(NULL);
}

TEST(test_begins)
{
    atomic_int begun[THREADS] = {0};
    cpu_pool *p = NULL;
    assert_int_equal(cpu_pool_open(THREADS, no_begin, begun, &p), 0);
    cpu_pool_close(p);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(begun[i], i > 0);
}

static void region(void *data)
{
    const int32_t asked = *(int32_t *)data, me = omp_get_thread_num();
    wrong += omp_get_num_threads() != asked || omp_in_parallel() != (asked > 1);
    wrong += asked > 1 && omp_get_max_threads() != 1;
    wrong += (int32_t)(atomic_fetch_or(&seen, 1u << me) >> me & 1);
}

/* Teams of changing sizes: threads that a region does not have miss any number of them. */
TEST(test_teams)
{
    cpu_pool *p = open_pool(THREADS);
    uint32_t draw = 1;
    (void)cpu_pool_serve(p, THREADS);
    for (int i = 0; i < 5000; i++) {
        draw = draw * 1664525 + 1013904223;
        int32_t team = 1 + (int32_t)(draw >> 16) % THREADS;
        GOMP_parallel(region, &team, (unsigned)team, 0);
        expect((uint32_t)team);
        if (draw >> 25 == 0)
            usleep(3000);
    }
    (void)cpu_pool_serve(NULL, 1);
    cpu_pool_close(p);
}

static void meets(void *data)
{
    for (int i = 1; i <= BARRIERS; i++) {
        arrived++;
        if (i % 3 == omp_get_thread_num() % 3)
            usleep(1500);
        GOMP_barrier();
        wrong += arrived < i * *(int32_t *)data;
        GOMP_barrier();
    }
}

TEST(test_barriers)
{
    cpu_pool *p = open_pool(THREADS);
    (void)cpu_pool_serve(p, THREADS);
    for (int32_t team = 1; team <= THREADS; team++) {
        arrived = 0;
        GOMP_parallel(meets, &team, (unsigned)team, 0);
        assert_int_equal(arrived, BARRIERS * team);
        assert_int_equal(wrong, 0);
    }
    GOMP_barrier(); /* of no region: nothing to wait for */
    (void)cpu_pool_serve(NULL, 1);
    cpu_pool_close(p);
}

static void nested(void *data)
{
    int32_t one = 1;
    (void)data;
    wrong += omp_get_num_threads() != THREADS;
    if (omp_get_thread_num() == 2)
        GOMP_parallel(region, &one, 0, 0);
    wrong += omp_get_num_threads() != THREADS;
}

/* A thread that no pool serves has no team; one in a region has no second. */
TEST(test_alone)
{
    cpu_pool *p = open_pool(THREADS);
    int32_t one = 1;
    GOMP_parallel(region, &one, THREADS, 0);
    expect(1);
    assert_int_equal(omp_get_max_threads(), 1);
    const uint64_t asked = cpu_pool_serve(p, 3);
    assert_int_equal(omp_get_max_threads(), 3);
    assert_int_equal(cpu_pool_serve(p, THREADS), asked + 1);
    GOMP_parallel(nested, NULL, 0, 0);
    assert_int_equal(wrong, 0);
    assert_int_equal(omp_get_num_threads(), 1);
    assert_int_equal(omp_get_thread_num(), 0);
    seen = 0;
    (void)cpu_pool_serve(NULL, 1);
    cpu_pool_close(p);
}

static void *beside(void *arg)
{
    int32_t n = *(int32_t *)arg;
    cpu_pool *p = NULL;
    intptr_t bad = cpu_pool_open(n, no_begin, NULL, &p);
    (void)cpu_pool_serve(p, n);
    for (int i = 0; i < 40 && !bad; i++) {
        bad += omp_get_max_threads() != n;
        GOMP_parallel(meets, &n, 0, 0);
    }
    cpu_pool_close(p);
    return (void *)bad;
}

/* Two devices in one process: each thread has its own. */
TEST(test_two_pools)
{
    int32_t sizes[2] = {2, 3};
    pthread_t thread[2];
    void *bad;
    arrived = 1 << 20;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, beside, &sizes[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

/* With fewer threads than a product was cut for, its parts would be left out. */
TEST(test_too_many)
{
    int status;
    const pid_t pid = fork();
    if (!pid) {
        int32_t n = 3;
        signal(SIGABRT, SIG_DFL);
        (void)cpu_pool_serve(open_pool(2), 2);
        GOMP_parallel(region, &n, 3, 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
