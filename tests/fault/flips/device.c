/* A device whose memory forgets: cpu, but on rank FLIP_RANK bit FLIP_BIT of the byte at the offset
 * FLIP_AT of the arena is inverted once, at the FLIP_READ-th time that the core reads a result,
 * which is after the lists of a step. Without FLIP_RANK it is cpu. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weft/device.h>

#include "../../wrapped.h"

static const weft_device_table *below;
static weft_device_table table;
static char *arena_base;
static uint64_t arena_bytes, reads;
static int flips;

static uint64_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static weft_status open_device(void *module, const weft_device_args *args, weft_device **out)
{
    flips = getenv("FLIP_RANK") && args->local_rank == number("FLIP_RANK");
    return below->open(module, args, out);
}

static weft_status take_arena(weft_device *d, uint64_t bytes, int32_t want_fd, void **base,
                              int32_t *fd)
{
    weft_status st = below->arena(d, bytes, want_fd, base, fd);
    if (st == WEFT_OK) {
        arena_base = *base;
        arena_bytes = bytes;
    }
    return st;
}

static weft_status copy(weft_device *d, weft_stream *s, void *to, const void *from, uint64_t bytes,
                        uint32_t flags)
{
    const uint64_t at = (uint64_t)((const char *)from - arena_base);
    const uint64_t end = (uint64_t)((const char *)to - arena_base);
    if (flips && at < arena_bytes && end >= arena_bytes && ++reads == number("FLIP_READ"))
        arena_base[number("FLIP_AT")] ^= (char)(1u << number("FLIP_BIT"));
    return below->copy(d, s, to, from, bytes, flags);
}

const weft_manifest *weft_plugin_entry(void)
{
    const weft_manifest *cpu =
        wrapped_load(FLIP_CPU, "weft.test.flip.device", "forgetful", &table, sizeof table);
    if (!cpu)
        return NULL;
    below = cpu->components[0]->table;
    table.open = open_device;
    table.arena = take_arena;
    table.copy = copy;
    return &wrapped_manifest;
}
