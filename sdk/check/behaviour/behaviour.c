/* check/behaviour/behaviour.c: what no call of a plugin may do: the table of the group. */
#include "check/behaviour/behaviour.h"

#define PLANS "weft.rule/1|weft.strategy/1|weft.placement/1|weft.model/1"
#define STEPS "weft.device/1|weft.link/1"
#define DRIVEN PLANS "|" STEPS "|weft.sink/1|weft.data/1|weft.tokenizer/1"

static const check checks[] = {
    {50, NULL, 20, "The plugin writes nothing to standard output and error",
     "bytes arrive there during a life", check_behaviour_silent},
    {51, NULL, 20, "No call ends the process, whatever lawful values the options have",
     "exit(), abort(), a signal, or a failure without a sentence", check_behaviour_options},
    {52, NULL, 20,
     "Environment, working folder, umask, locale, signals and floating-point mode are unchanged",
     "one of them differs after a life", check_behaviour_state},
    {53, DRIVEN, 20, "What a call borrows is not used after it has returned",
     "a crash: the memory has no access any more", check_behaviour_borrow},
    {54, STEPS "|weft.data/1", 20, "Calls in a step take no memory, descriptor or thread",
     "alloc(), malloc(), open(), mmap() or pthread_create() in a call of a step",
     check_behaviour_step},
    {55, "weft.link/1", 14, "send() and progress() do not block while the peer is stopped",
     "a call takes more than 5 ms, again and again", check_behaviour_blocks},
    {56, PLANS, 20, "Planning is pure: the same job gives the same plan, also in another module",
     "the second plan has another digest", check_behaviour_pure},
    {57, "weft.link/1", 14, "wake() and abort() may be called by eight threads at once",
     "a crash, a hang or other bytes", check_behaviour_any},
    {58, PLANS, 20, "A module may be entered by one thread after another",
     "a plan made in another thread differs or fails: thread-local data", check_behaviour_threads},
    {59, STEPS, 20, "Two threads may use two objects of one module at once",
     "a crash, a failure or other bytes: the objects share data without a lock",
     check_behaviour_objects},
    {60, NULL, 20, "No C++ exception leaves the plugin when operator new throws",
     "the process is ended by SIGABRT", check_behaviour_exceptions},
    {61, NULL, 20, "The plugin asks for options that it declares, and no others",
     "an undeclared key", check_behaviour_keys},
    {62, NULL, 20, "Log lines are one line of printable text, and no format",
     "a newline, a control character, NULL or an unknown level", check_behaviour_log},
    {63, "weft.device/1", 20, "Strings that calls return stay as they are",
     "fuse() returns another text in the same place after 1,000 calls", check_behaviour_strings},
    {0},
};
const check_group check_group_behaviour = {"behaviour", "Behaviour", checks};
