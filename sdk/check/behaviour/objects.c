/* check/behaviour/objects.c: two threads enter two objects of one module at once. */
#include "check/behaviour/behaviour.h"

#include <string.h>

#define LIVES 15u

static check_host h;

/* What one thread drives: its own objects, of the common module. */
typedef struct half {
    check_exercise d;
    pthread_barrier_t *both;
} half;

static void *live(void *arg)
{
    half *w = arg;
    for (uint32_t i = 0; i < LIVES; i++) {
        pthread_barrier_wait(w->both);
        const weft_status st = check_exercise_all(&w->d);
        if (st != WEFT_OK)
            check_fail("while another thread used other objects of the module, %s() of '%s' "
                       "returned %s: %s",
                       w->d.where, w->d.of, check_status(st), check_exercise_why(&w->d));
    }
    return NULL;
}

void check_behaviour_objects(check_run *r)
{
    const weft_manifest *m = check_manifest(r);
    pthread_barrier_t both;
    pthread_t other;
    half at[2] = {{.d = {.run = r, .host = &h}, .both = &both},
                  {.d = {.run = r, .host = &h}, .both = &both}};
    check_host_begin(&h, "the host");
    const weft_status st = check_open(m, &h, &at[0].d.module);
    if (st != WEFT_OK)
        check_fail("open() returned %s: %s", check_status(st), h.why);
    at[1].d.module = at[0].d.module;
    at[0].d.objects = at[1].d.objects = true;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&other, NULL, live, &at[1]))
        check_fail("no thread for the check");
    live(&at[0]);
    pthread_join(other, NULL);
    check_close(m, at[0].d.module);
}
