/* host/interfaces.c: every interface that the host knows: the size of its table, the least size
 * that a plugin's table may have, and its mandatory members. A new interface is an entry here and
 * nothing else in this folder.
 *
 * LEAST names the last member of the table in ABI 0.9: it never changes. Members behind it are
 * optional for good, and are in no list of slots without a condition on caps. */
#include <stdlib.h>
#include <string.h>
#include <weft/coll.h>
#include <weft/data.h>
#include <weft/device.h>
#include <weft/link.h>
#include <weft/model.h>
#include <weft/op.h>
#include <weft/optim.h>
#include <weft/sink.h>
#include <weft/strategy.h>

#include "host/object.h"

#define SLOT(type, member)                                                                         \
    {                                                                                              \
#member, offsetof(type, member), 0                                                         \
    }
#define WITH(type, member, caps)                                                                   \
    {                                                                                              \
#member, offsetof(type, member), caps                                                      \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

static const host_slot device_slots[] = {
    SLOT(weft_device_table, query),
    SLOT(weft_device_table, probe),
    SLOT(weft_device_table, open),
    SLOT(weft_device_table, close),
    SLOT(weft_device_table, describe),
    SLOT(weft_device_table, arena),
    SLOT(weft_device_table, host_memory),
    SLOT(weft_device_table, stream),
    SLOT(weft_device_table, event),
    SLOT(weft_device_table, record),
    SLOT(weft_device_table, stream_wait),
    SLOT(weft_device_table, event_query),
    SLOT(weft_device_table, copy),
    SLOT(weft_device_table, fill),
    SLOT(weft_device_table, prepare),
    SLOT(weft_device_table, release),
    SLOT(weft_device_table, run),
    WITH(weft_device_table, flag_wait, WEFT_DEV_FLAGS),
    WITH(weft_device_table, flag_set, WEFT_DEV_FLAGS),
    WITH(weft_device_table, capture_begin, WEFT_DEV_CAPTURE),
    WITH(weft_device_table, capture_end, WEFT_DEV_CAPTURE),
    WITH(weft_device_table, replay, WEFT_DEV_CAPTURE),
    WITH(weft_device_table, ipc_domain, WEFT_DEV_IMPORT_PEER),
    WITH(weft_device_table, import_peer, WEFT_DEV_IMPORT_PEER),
    END,
};

#define LINK_MEMORY (WEFT_LINK_REGISTER | WEFT_LINK_MAP)
static const host_slot link_slots[] = {
    SLOT(weft_link_table, probe),
    SLOT(weft_link_table, create),
    SLOT(weft_link_table, destroy),
    SLOT(weft_link_table, address),
    SLOT(weft_link_table, connect),
    SLOT(weft_link_table, ready),
    SLOT(weft_link_table, disconnect),
    SLOT(weft_link_table, send),
    SLOT(weft_link_table, recv),
    SLOT(weft_link_table, progress),
    SLOT(weft_link_table, wait),
    SLOT(weft_link_table, wake),
    SLOT(weft_link_table, abort),
    WITH(weft_link_table, register_memory, LINK_MEMORY),
    WITH(weft_link_table, deregister_memory, LINK_MEMORY),
    WITH(weft_link_table, key, WEFT_LINK_MAP),
    WITH(weft_link_table, map, WEFT_LINK_MAP),
    END,
};

static const host_slot coll_slots[] = {
    SLOT(weft_coll_table, probe),
    SLOT(weft_coll_table, id),
    SLOT(weft_coll_table, open),
    SLOT(weft_coll_table, ready),
    SLOT(weft_coll_table, close),
    SLOT(weft_coll_table, begin),
    SLOT(weft_coll_table, end),
    SLOT(weft_coll_table, call),
    SLOT(weft_coll_table, health),
    SLOT(weft_coll_table, abort),
    WITH(weft_coll_table, test, WEFT_COLL_HOST),
    END,
};

static const host_slot strategy_slots[] = {SLOT(weft_strategy, edit), END};
static const host_slot rule_slots[] = {SLOT(weft_rule, update), END};
static const host_slot placement_slots[] = {SLOT(weft_placement, edit), END};
static const host_slot model_slots[] = {
    SLOT(weft_model_table, describe),
    SLOT(weft_model_table, build),
    END,
};
static const host_slot data_slots[] = {
    SLOT(weft_data_table, open),
    SLOT(weft_data_table, close),
    SLOT(weft_data_table, info),
    SLOT(weft_data_table, read),
    END,
};
static const host_slot tokenizer_slots[] = {
    SLOT(weft_tokenizer_table, open),   SLOT(weft_tokenizer_table, close),
    SLOT(weft_tokenizer_table, info),   SLOT(weft_tokenizer_table, encode),
    SLOT(weft_tokenizer_table, decode), END,
};
static const host_slot op_slots[] = {SLOT(weft_op, infer), END};
static const host_slot kernel_slots[] = {
    SLOT(weft_kernel, op),
    SLOT(weft_kernel, device),
    SLOT(weft_kernel, query),
    SLOT(weft_kernel, prepare),
    SLOT(weft_kernel, release),
    SLOT(weft_kernel, run),
    END,
};

static const host_slot sink_slots[] = {
    SLOT(weft_sink_table, open),
    SLOT(weft_sink_table, metrics),
    SLOT(weft_sink_table, close),
    END,
};

#define LEAST(type, member) (uint32_t) WEFT_END_OF(type, member)

static const host_interface interfaces[] = {
    {"weft.device/1", "device", sizeof(weft_device_table), LEAST(weft_device_table, import_peer),
     offsetof(weft_device_table, caps), device_slots},
    {"weft.link/1", "comm", sizeof(weft_link_table), LEAST(weft_link_table, features),
     offsetof(weft_link_table, caps), link_slots},
    {"weft.coll/1", "comm", sizeof(weft_coll_table), LEAST(weft_coll_table, supports),
     offsetof(weft_coll_table, caps), coll_slots},
    {"weft.strategy/1", "parallel", sizeof(weft_strategy), LEAST(weft_strategy, list), 0,
     strategy_slots},
    {"weft.rule/1", "optim", sizeof(weft_rule), LEAST(weft_rule, update), 0, rule_slots},
    {"weft.placement/1", "optim", sizeof(weft_placement), LEAST(weft_placement, edit), 0,
     placement_slots},
    {"weft.sink/1", "sink", sizeof(weft_sink_table), LEAST(weft_sink_table, close), 0, sink_slots},
    {"weft.model/1", "model", sizeof(weft_model_table), LEAST(weft_model_table, formats), 0,
     model_slots},
    {"weft.data/1", "data", sizeof(weft_data_table), LEAST(weft_data_table, read), 0, data_slots},
    {"weft.tokenizer/1", "tokenizer", sizeof(weft_tokenizer_table),
     LEAST(weft_tokenizer_table, decode), 0, tokenizer_slots},
    {"weft.op/1", "op", sizeof(weft_op), LEAST(weft_op, first_axis), 0, op_slots},
    {"weft.kernel/1", "op", sizeof(weft_kernel), LEAST(weft_kernel, run), 0, kernel_slots},
};

#define COUNT (sizeof interfaces / sizeof *interfaces)

const host_interface *host_interface_find(const char *id)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(interfaces[i].id, id))
            return &interfaces[i];
    return NULL;
}

const host_interface *host_interface_other_major(const char *id)
{
    size_t stem = strcspn(id, "/") + 1;
    for (size_t i = 0; i < COUNT; i++)
        if (!strncmp(interfaces[i].id, id, stem))
            return &interfaces[i];
    return NULL;
}

#define WORD "abcdefghijklmnopqrstuvwxyz0123456789._"

bool host_plugin_name_well_formed(const char *name)
{
    size_t n = name ? strnlen(name, WEFT_MAX_NAME) : 0;
    return n && n < WEFT_MAX_NAME && strspn(name, WORD) == n && name[0] != '.' &&
           name[n - 1] != '.' && !strstr(name, "..");
}

bool host_interface_well_formed(const char *id)
{
    size_t n = id ? strnlen(id, WEFT_MAX_NAME) : 0, stem = n ? strspn(id, WORD "-") : 0;
    if (!stem || n >= WEFT_MAX_NAME || id[stem] != '/')
        return false;
    const char *major = id + stem + 1;
    size_t digits = strspn(major, "0123456789");
    return digits && digits < 6 && !major[digits] && major[0] != '0';
}
