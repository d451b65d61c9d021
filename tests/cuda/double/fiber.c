/* fiber.c: see fiber.h. */
#define _GNU_SOURCE
#include "fiber.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LIMIT = 1024, WARP = 32, STACK = 256 << 10 };

struct fiber {
    void *sp;
    enum { READY, AT_BLOCK, AT_WARP, ENDED } state;
    int shuffles; /* how many it has come to */
};

struct fiber_place fiber_now;

static struct {
    struct fiber fiber[LIMIT];
    float passed[2][LIMIT]; /* values of shuffles */
    char *stacks;
    void *scheduler;
    int threads, ended, at_block;
    int warp_ended[LIMIT / WARP], at_warp[LIMIT / WARP];
    const struct fiber_kernel *kernel;
    const void *job;
    bool backwards;
    uint32_t launches;
} all;

static void die(const char *what)
{
    fprintf(stderr, "kernel %s, block %lld, thread %d: %s\n",
            all.kernel ? all.kernel->kernel.name : "?", (long long)fiber_now.block,
            fiber_now.thread, what);
    abort();
}

/* Store the registers that a call keeps on this stack and go on on another. */
void fiber_switch(void **from, void *to);
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".hidden fiber_switch\n"
        ".type fiber_switch, @function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, .-fiber_switch\n");

static void yield(void)
{
    fiber_switch(&all.fiber[fiber_now.thread].sp, all.scheduler);
}

static void fiber_body(void)
{
    all.kernel->entry(all.job);
    struct fiber *f = &all.fiber[fiber_now.thread];
    f->state = ENDED;
    all.ended++;
    all.warp_ended[fiber_now.thread / WARP]++;
    yield();
    die("it was resumed after its end");
}

static void make_fiber(int i)
{
    void **top = (void **)(void *)(all.stacks + (size_t)(i + 1) * STACK);
    top -= 2; /* so that the stack is aligned as a call leaves it */
    *top = (void *)(uintptr_t)fiber_body;
    top -= 6; /* the kept registers */
    memset(top, 0, 6 * sizeof *top);
    all.fiber[i] = (struct fiber){.sp = top};
}

/* --- what threads wait for --- */

static int warp_threads(int warp)
{
    const int left = all.threads - warp * WARP;
    return left < WARP ? left : WARP;
}

static void release_block(void)
{
    for (int i = 0; i < all.threads; i++)
        if (all.fiber[i].state == AT_BLOCK)
            all.fiber[i].state = READY;
    all.at_block = 0;
}

static void release_warp(int warp)
{
    for (int i = warp * WARP; i < warp * WARP + warp_threads(warp); i++)
        if (all.fiber[i].state == AT_WARP)
            all.fiber[i].state = READY;
    all.at_warp[warp] = 0;
}

void fiber_sync_block(void)
{
    all.fiber[fiber_now.thread].state = AT_BLOCK;
    all.at_block++;
    yield();
}

void fiber_sync_warp(void)
{
    all.fiber[fiber_now.thread].state = AT_WARP;
    all.at_warp[fiber_now.thread / WARP]++;
    yield();
}

float fiber_shuffle_xor(float x, int mask)
{
    const int me = fiber_now.thread, other = me ^ mask;
    const int count = ++all.fiber[me].shuffles, turn = count & 1;
    if (other / WARP != me / WARP || other >= all.threads)
        die("a shuffle with a thread of another warp");
    all.passed[turn][me] = x;
    fiber_sync_warp();
    if (all.fiber[other].shuffles < count)
        die("a shuffle with a thread that has ended");
    return all.passed[turn][other];
}

void fiber_check_aligned(const void *p, uintptr_t to)
{
    if ((uintptr_t)p % to != 0)
        die("an address that is not aligned");
}

/* --- blocks --- */

/* Let go of those whose barrier all have reached; false: none was. */
static bool release(void)
{
    bool any = false;
    if (all.at_block > 0 && all.at_block + all.ended == all.threads) {
        release_block();
        any = true;
    }
    for (int w = 0; w * WARP < all.threads; w++)
        if (all.at_warp[w] > 0 && all.at_warp[w] + all.warp_ended[w] == warp_threads(w)) {
            release_warp(w);
            any = true;
        }
    return any;
}

static void run_block(void)
{
    all.ended = all.at_block = 0;
    memset(all.warp_ended, 0, sizeof all.warp_ended);
    memset(all.at_warp, 0, sizeof all.at_warp);
    for (int i = 0; i < all.threads; i++)
        make_fiber(i);
    while (all.ended < all.threads) {
        bool ran = false;
        for (int k = 0; k < all.threads; k++) {
            const int i = all.backwards ? all.threads - 1 - k : k;
            if (all.fiber[i].state != READY)
                continue;
            ran = true;
            fiber_now.thread = i;
            fiber_switch(&all.scheduler, all.fiber[i].sp);
        }
        if (!release() && !ran && all.ended < all.threads)
            die("some threads wait at a barrier that others never reach");
    }
}

void kernel_launch(const struct kernel *k, const void *job, int64_t x, int64_t y, int threads,
                   uint64_t shared)
{
    all.kernel = (const struct fiber_kernel *)k;
    all.job = job;
    all.threads = threads;
    all.backwards = (all.launches += 0x9e3779b9u) >> 31; /* no pattern that ops could follow */
    if (threads > k->threads || threads < 1)
        die("launched with more threads than it is made for");
    if (!all.stacks)
        all.stacks = mmap(NULL, (size_t)LIMIT * STACK, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fiber_now = (struct fiber_place){.threads = threads, .blocks = x};
    fiber_now.shared = aligned_alloc(16, (shared + 31) / 16 * 16);
    for (int64_t i = 0; i < x * y; i++) {
        const int64_t at = all.backwards ? x * y - 1 - i : i;
        fiber_now.block = at % x;
        fiber_now.block_y = at / x;
        memset(fiber_now.shared, 0xff, shared);
        run_block();
    }
    free(fiber_now.shared);
}

/* --- names --- */

static struct fiber_kernel *kernels;

void fiber_add(struct fiber_kernel *k)
{
    k->next = kernels;
    kernels = k;
}

struct kernel *kernel_find(const char *name)
{
    for (struct fiber_kernel *k = kernels; k; k = k->next)
        if (strcmp(k->kernel.name, name) == 0)
            return &k->kernel;
    return NULL;
}
