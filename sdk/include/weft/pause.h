/* weft/pause.h: the spin-wait hint of a polling loop.
 *
 * A link whose peer answers within a microsecond polls a flag in memory before it sleeps.
 * weft_pause() in that loop tells the processor that the thread spins: the core gives its execution
 * units to the other hardware thread, uses less power, and leaves the loop without a memory-order
 * mispredict. It takes between 10 ns and 150 ns and never enters the kernel; where more threads run
 * than cores, a loop sleeps instead. (sched_yield() waits for milliseconds beside a program that
 * computes.)
 *
 * x86-64 has `pause`; on AArch64 `isb` takes about as long, whereas `yield` does nothing on most
 * cores; other processors get only a compiler barrier, which keeps loads inside the loop. */
#ifndef WEFT_PAUSE_H
#define WEFT_PAUSE_H

#if defined(__x86_64__)
#define WEFT_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define WEFT_PAUSE() __asm__ volatile("isb" ::: "memory")
#else
#define WEFT_PAUSE() __asm__ volatile("" ::: "memory")
#endif

/* Takes nothing, returns nothing, cannot fail. [any thread, any phase] */
static inline void weft_pause(void)
{
    WEFT_PAUSE();
}

#endif
