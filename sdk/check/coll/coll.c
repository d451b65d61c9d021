/* check/coll/coll.c: libraries of collectives: the table of the group. */
#include "check/coll/coll.h"

#define COLLS "weft.coll/1"

static const check checks[] = {
    {130, COLLS, 9, "open() and ready() return at once, and ready() waits for all ranks",
     "a call waits for the last rank, or says WEFT_OK without it", check_coll_open},
    {131, COLLS, 9, "Each id() is a new one and keeps to its room",
     "two are the same, or it writes beyond its room", check_coll_ids},
    {132, COLLS, 22, "Every kind, operator and type has the results of double, with odd counts",
     "another element, or bytes beyond the result", check_coll_results},
    {133, COLLS, 22, "The smaller side may lie at rank * count / n of the larger",
     "its input was overwritten before it was read", check_coll_in_place},
    {134, COLLS, 9, "A sum has the same bits on all ranks", "each rank adds in an order of its own",
     check_coll_same},
    {135, COLLS, 9, "end() ends a group whose call has failed",
     "the next group fails, or counts are wrong", check_coll_failed},
    {136, COLLS, 9, "Work of a group is done, also where end() is WEFT_BUSY",
     "an operation is counted and was not done", check_coll_busy},
    {137, COLLS, 9, "Operations are done in order, and the host goes on meanwhile",
     "a call waits for another rank", check_coll_goes_on},
    {138, COLLS, 9, "A communicator is split by colour, in the order of the ranks",
     "a result of another group", check_coll_split},
    {139, COLLS, 12, "health() is cheap and reports a rank that died",
     "more than 10 us, or WEFT_OK for ever", check_coll_health},
    {140, COLLS, 12, "abort() may meet another call, come twice, and be followed by close()",
     "a crash, or an operation that never fails", check_coll_abort},
    {141, COLLS, 9, "A communicator whose memory cannot be registered works without",
     "operations fail after register_memory()", check_coll_register},
    {142, COLLS, 8, "close() ends with a rank that died", "it waits for ever", check_coll_close},
    {0},
};
const check_group check_group_coll = {"coll", "Collectives", checks};
