/* check/coll/coll.c: libraries of collectives: the table of the group. */
#include "check/check.h"

static const check checks[] = {
    {0},
};
const check_group check_group_coll = {"coll", "Collectives", checks};
