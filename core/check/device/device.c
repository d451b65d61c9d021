/* check/device/device.c: devices: memory, streams, events and ops: the table of the group. */
#include "check/check.h"

static const check checks[] = {
    {0},
};
const check_group check_group_device = {"device", "Device", checks};
