/* fuzz/hosts_fuzz.c: files of hosts, which users write, and frames of an agent on another host. */
#include "launch/hosts/frame.h"
#include "launch/hosts/list.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_list(const char *text, size_t size)
{
    launch_host_list l;
    if (launch_host_list_parse("hosts", text, size, &l) != WEFT_OK)
        return;
    const uint32_t slots = launch_host_list_slots(&l);
    uint32_t ranks = 0;
    launch_host_list_assign(&l, slots);
    for (uint32_t i = 0; i < l.n; i++) {
        if (!*l.at[i].name || *l.at[i].name == '-' || l.at[i].first != ranks)
            abort();
        ranks += l.at[i].count;
    }
    if (!slots || ranks != slots)
        abort();
    launch_host_list_free(&l);
}

static void read_frames(const uint8_t *data, size_t size)
{
    int to[2];
    launch_frame_link l;
    launch_frame f;
    if (size > 60000 || pipe(to))
        return;
    launch_frame_open(&l, to[0], to[1]);
    if (write(to[1], data, size) != (ssize_t)size)
        abort();
    while (launch_frame_receive(&l, &f))
        if (f.bytes > FRAME_TEXT || f.text[f.bytes] || !f.kind || f.kind >= FRAME_KINDS)
            abort();
    launch_frame_close(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    read_list((const char *)data, size);
    read_frames(data, size);
    return 0;
}
