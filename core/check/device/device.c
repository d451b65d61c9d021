/* check/device/device.c: devices: memory, streams, events and ops: the table of the group. */
#include "check/device/ops.h"

#define DEVICES "weft.device/1"

static const check checks[] = {
    {67, DEVICES, 20, "prepare() takes what query() accepts", "accepted, and then refused",
     check_ops_agree},
    {68, DEVICES, 20, "query() bounds the workspace", "bytes behind the workspace are written",
     check_ops_bound},
    {69, DEVICES, 0, "An unknown op is WEFT_UNSUPPORTED with a sentence",
     "another status, or no sentence", check_ops_unknown},
    {70, DEVICES, 0, "fuse() returns constant strings, and query() has a kernel for each",
     "the pointer changes, or a name without a kernel", check_ops_fuse},
    {81, DEVICES, 20, "Ops have the results of double loops", "an element beyond the bound",
     check_ops_results},
    {82, DEVICES, 20, "... with odd and large shapes, too", "elements at the end are wrong",
     check_ops_sizes},
    {83, DEVICES, 20, "WEFT_SPEC_ACCUMULATE adds to the outputs", "they are overwritten",
     check_ops_accumulate},
    {84, DEVICES, 20, "WEFT_SPEC_DETERMINISTIC: the same bits over 100 runs on two streams",
     "bits differ", check_ops_deterministic},
    {85, DEVICES, 20, "Inputs are unchanged, unless an output lies over them as in_place says",
     "a byte differs, or results do in place", check_ops_inputs},
    {86, DEVICES, 20, "Nothing outside of operands and workspace is written",
     "a byte before or behind an output", check_ops_outside},
    {87, DEVICES, 20, "One prepared op runs on two streams at once",
     "the runs share memory of the op, and results are mixed", check_ops_streams},
    {88, DEVICES, 20, "Outputs that nothing reads, and inputs of which the shape counts, are NULL",
     "a crash, or other results", check_ops_absent},
    {89, DEVICES, 0, "Programs have all opcodes, 64 registers and 32 operands each way",
     "a wrong result, or a crash", check_ops_programs},
    {90, DEVICES, 0, "With a gate of 0 a program writes nothing", "an output has changed",
     check_ops_gate},
    {91, DEVICES, 0, "NaN, infinity and denormal numbers are as weft/op.h says",
     "finite says 1 for infinity, or a denormal number is 0", check_ops_special},
    {0},
};
const check_group check_group_device = {"device", "Device", checks};
