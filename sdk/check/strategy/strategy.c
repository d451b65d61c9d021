/* check/strategy/strategy.c: strategies and placements: the edits of a plan: the table of the
 * group. */
#include "check/strategy/strategy.h"

#define STRATEGY "weft.strategy/1"
#define PLACEMENT "weft.placement/1"
#define EITHER STRATEGY "|" PLACEMENT

static const check checks[] = {
    {143, STRATEGY, 0, "Mesh axes and their keys are well-formed and clash with no others",
     "an axis or key that an option, the core or another strategy has", check_strategy_axes},
    {144, STRATEGY, 0,
     "With mesh axes of size 1 a strategy changes nothing; one without axes always the same",
     "an edit that is not over one of these axes; another plan of the same job",
     check_strategy_alone},
    {145, STRATEGY, 0, "Edits come in their phases, and an unknown phase is WEFT_OK without edits",
     "an edit in another phase, or a failure in a phase of a later host", check_strategy_phases},
    {146, EITHER, 0, "The status of an edit that is refused is passed on",
     "edit() returns WEFT_OK or another status", check_strategy_refusals},
    {147, EITHER, 0, "The plan is the same if blocks and parameters have other names",
     "names of a family are written into the plugin", check_strategy_names},
    {148, EITHER, 20, "Every rank plans the same, and so does a second call",
     "the digests of plans differ: the process or its environment matters", check_strategy_ranks},
    {149, EITHER, 0, "Nothing that edit() was lent is used after it",
     "a crash: a string or array of the view is read in a later call", check_strategy_handles},
    {150, STRATEGY, 20, "Jobs over 1 to 8 ranks are planned, with each installed family",
     "the core refuses an edit, or a gradient that is never summed", check_strategy_plans},
    {151, STRATEGY, 60, "Rank processes train as one rank",
     "loss or norm differ by more than 2e-4 in 12 steps", check_strategy_train},
    {152, STRATEGY, 20, "Orders end on a machine that does not buffer",
     "stages that wait for each other with some number of stages and micro-batches",
     check_strategy_orders},
    {153, STRATEGY, 20, "A replacement assigns each output once",
     "the core refuses a replacement, for some type or number of ranks",
     check_strategy_replacements},
    {154, STRATEGY, 60, "changes_results() is called exactly when results depend on the layout",
     "it is called and ranks train as one, or it is not and they do not", check_strategy_changes},
    {155, STRATEGY, 20, "A strategy works before and after the others, or is refused with a reason",
     "a crash, or a refusal without a sentence", check_strategy_company},
    {156, PLACEMENT, 0, "A placement shards and syncs over the data's mesh axes alone",
     "another edit, or another mesh axis", check_placement_edits},
    {157, PLACEMENT, 0, "Bytes sent and kept with a placement follow its formula",
     "a rank sends or keeps more than what is sharded needs", check_placement_bytes},
    {0},
};
const check_group check_group_strategy = {"strategy", "Strategy and placement", checks};
