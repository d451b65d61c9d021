/* pool.h: the threads of a cpu device, which also serve the OpenMP calls of oneDNN.
 *
 * oneDNN divides a product among omp_get_max_threads() threads when it is prepared, and leaves out
 * the parts of those that a region does not get. libgomp gives a region fewer threads than asked
 * when OMP_DYNAMIC, OMP_THREAD_LIMIT or OMP_MAX_ACTIVE_LEVELS say so, and its threads spin for
 * milliseconds on cores that others need. So the library of this folder has the six functions of
 * OpenMP that oneDNN calls. The plugin links to it before oneDNN: the loader then finds these
 * functions before those of libgomp, for the plugin and its own libraries alone. No variable of the
 * environment has an effect on them.
 *
 * A region has exactly the threads that it asks for. A thread that waits spins for some
 * microseconds, then offers its core to others between two looks, and sleeps after a millisecond.
 *
 * A pool runs one region at a time. Its calls come from one thread at a time. */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include <stdint.h>

typedef struct cpu_pool cpu_pool;

/* Start a pool of `threads`: the thread that runs a region and threads - 1 workers, each of which
 * calls begin(ctx, number) first, with numbers from 1. 0, or the error of pthread_create(); then
 * nothing is left behind. [setup] */
int cpu_pool_open(int32_t threads, void (*begin)(void *ctx, int32_t thread), void *ctx,
                  cpu_pool **out);

/* End the workers; NULL is ignored. [setup] */
void cpu_pool_close(cpu_pool *p);

/* Call body(data, thread, threads) on all threads of the pool; returns when all have returned. */
void cpu_pool_run(cpu_pool *p, void (*body)(void *data, int32_t thread, int32_t threads),
                  void *data);

/* From here on, OpenMP regions of the calling thread run in `p` and are told that there are
 * `threads` at most; NULL: on the calling thread alone. Returns how often this thread has asked for
 * the number of threads so far: oneDNN does so while it prepares a product. */
uint64_t cpu_pool_serve(cpu_pool *p, int32_t threads);

/* What oneDNN calls: see the OpenMP specification, and libgomp for the first two. Only region() of
 * a served thread, outside of others, has more than one thread. */
void GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);

#endif
