#ifndef WEFT_PAUSE_H
#define WEFT_PAUSE_H
#if defined(__x86_64__)
#define WEFT_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define WEFT_PAUSE() __asm__ volatile("isb" ::: "memory")
#else
#define WEFT_PAUSE() __asm__ volatile("" ::: "memory")
#endif
static inline void weft_pause(void)
{
    WEFT_PAUSE();
}
#endif
