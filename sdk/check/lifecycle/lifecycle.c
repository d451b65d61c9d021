/* check/lifecycle/lifecycle.c: modules and objects from open to close: the table of the group. */
#include "check/lifecycle/lifecycle.h"

static const check checks[] = {
    {39, NULL, 20, "open() and close() 1,000 times leave nothing behind",
     "descriptors, threads, processes, mappings or blocks of memory grow", check_lifecycle_repeat},
    {40, NULL, 20, "Two modules with hosts of their own do not mix",
     "calls with one module allocate, log or fail through the other's host: global data",
     check_lifecycle_two_hosts},
    {41, NULL, 30,
     "When an allocation fails, the call fails with WEFT_NO_MEMORY and gives all back",
     "a crash, another status, or a leak after the k-th allocation failed",
     check_lifecycle_no_memory},
    {42, NULL, 30, "Every failure records a sentence", "a failing call leaves no record",
     check_lifecycle_sentence},
    {43, NULL, 20, "A call that succeeds records no failure, except a probe() without a score",
     "fail() is called, and the call returns WEFT_OK", check_lifecycle_no_record},
    {44, NULL, 20, "Calls that give something back accept NULL", "a crash", check_lifecycle_null},
    {45, NULL, 20, "A failing open() does not write to *module", "half an object in *module",
     check_lifecycle_untouched},
    {46, NULL, 20, "After close() no thread, process or descriptor of the plugin is left",
     "a thread or a daemon still runs, or a descriptor is open", check_lifecycle_threads},
    {47, NULL, 20, "All memory goes back through the table that gave it, once",
     "free() with foreign memory, twice, or never", check_lifecycle_memory},
    {48, NULL, 20, "open() and planning touch no device, driver or network",
     "a socket, or a file of a device is opened", check_lifecycle_plan_only},
    {49, NULL, 20, "A forked child of a process with an open module can end",
     "the child hangs or crashes in _exit()", check_lifecycle_fork},
    {0},
};
const check_group check_group_lifecycle = {"lifecycle", "Lifecycle", checks};
