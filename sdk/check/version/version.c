/* check/version/version.c: old and new hosts: the table of the group. */
#include "check/version/version.h"

#define PLANS "weft.rule/1|weft.strategy/1|weft.placement/1|weft.model/1"
#define DATA "weft.data/1|weft.tokenizer/1"
#define DRIVEN PLANS "|weft.device/1|weft.link/1|weft.sink/1|" DATA

static const check checks[] = {
    {29, NULL, 20,
     "The plugin works with the host table and options of ABI 0.9, and reads nothing behind them",
     "a crash at the page behind the table", check_version_host},
    {30, PLANS, 20,
     "The plugin works with builder, view and edits of ABI 0.9, and reads nothing behind them",
     "a crash at the page behind the table", check_version_tables},
    {31, DRIVEN, 20,
     "The plugin works with argument structs of ABI 0.9, and reads nothing behind them",
     "a crash at the page behind the struct", check_version_args},
    {32, NULL, 20, "The plugin works with a host of a later minor",
     "a refusal of a longer table, or of a longer struct whose new part is zero",
     check_version_later},
    {33, DRIVEN, 20, "Argument structs with a new part that is not zero are WEFT_UNSUPPORTED",
     "the call succeeds, or fails with another status", check_version_asks},
    {34, "weft.model/1|weft.device/1|" DATA, 20, "An answer is no longer than the caller's struct",
     "a crash at the page behind the struct: the plugin stores its own size", check_version_out},
    {35, "weft.device/1|weft.link/1|weft.sink/1", 20, "Optional members need not be called",
     "a life without the call of one of them fails", check_version_optional},
    {36, NULL, 20, "A host whose iface() is always NULL is served or refused with a sentence",
     "a crash, or a failure without a sentence", check_version_bare},
    {37, DRIVEN, 20, "Unknown flags, types, opcodes and ops are WEFT_UNSUPPORTED",
     "the call succeeds, or fails with another status", check_version_unknown},
    {38, PLANS, 20, "A status that is not known, from the core's tables, is passed on unchanged",
     "the call succeeds, or fails with another status", check_version_status},
    {0},
};
const check_group check_group_version = {"version", "Versions", checks};
