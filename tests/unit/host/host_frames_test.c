/* Does another thread read the calls of one whole, whatever that does meanwhile? */
#include <pthread.h>
#include <unistd.h>

#include <test.h>

#include "host/call.h"

static const char outer_key, inner_key;

#define LONG 100u
static host_call_site many[LONG], one[1];
static _Atomic(host_thread_calls *) watched;
static atomic_bool enough;

static void nested_in_last_piece(host_call_site *at, uint32_t n)
{
    call_site_enter(at);
    call_enter(&outer_key, "run");
    host_call_row row = call_row_begin(n);
    for (uint32_t i = 0; i < n; i++)
        call_row_next(&row);
    call_enter(&inner_key, "infer");
    call_leave();
    call_leave();
}

static void *moves(void *unused)
{
    atomic_store(&watched, &host_call_slot);
    while (!atomic_load(&enough)) {
        nested_in_last_piece(many, LONG);
        nested_in_last_piece(one, 1);
    }
    return unused;
}

/* No index of one array of sites is taken for one of the other, whenever the thread is read. */
TEST(frames_are_read_whole)
{
    pthread_t t;
    host_thread_calls *s;
    uint64_t seen[2] = {0};
    assert_int_equal(pthread_create(&t, NULL, moves, NULL), 0);
    while (!(s = atomic_load(&watched)))
        usleep(100);
    while (seen[0] < 300000 || seen[1] < 300000) {
        call_read_frame(s, 0); /* as the watchdog does: the outer one first */
        const host_call_read r = call_read_frame(s, 1);
        if (!r.number)
            continue;
        if (r.site != &one[0])
            assert_ptr_equal(r.site, &many[LONG - 1]);
        seen[r.site == &one[0]]++;
        assert_ptr_equal(r.key, &inner_key);
    }
    atomic_store(&enough, true);
    pthread_join(t, NULL);
}
