/* config/constraints.c: the table, and a row as a sentence. See constraints.h. */
#include "config/constraints.h"
#include "config/config.h"

#include <string.h>

#include "base/err.h"

const config_constraint_row config_constraint_rows[CONSTRAINT_RULES] = {
    [CONSTRAINT_ONE_AUTO] =
        {"parallel.AXIS",
         "only one of the mesh axes can be auto; {other} is as well: give one of "
         "them a number",
         "auto is what the other sizes leave of the ranks"},
    [CONSTRAINT_SIZE] =
        {"parallel.AXIS, -n",
         "{size} does not divide the {ranks} ranks of the job, of which other axes leave {left}; "
         "give it a divisor of {left}, or auto, or start other ranks (-n)",
         "every rank has one coordinate on every mesh axis"},
    [CONSTRAINT_RANKS] = {"parallel.strategy, parallel.AXIS, -n",
                          "the strategies use {used}, but the job has {ranks}; set [parallel] "
                          "strategy (such as dp) and its sizes, or start {used}",
                          "a rank that no strategy uses would do nothing"},
    [CONSTRAINT_AXIS_TWICE] =
        {"parallel.strategy",
         "{parallel.strategy}: two strategies bring the mesh axis {axis}; name "
         "each once",
         "hybrid is a list of strategies that contains them already"},
    [CONSTRAINT_PLACEMENT] =
        {"optim.placement, parallel.strategy, parallel.AXIS",
         "{optim.placement} shards over the ranks that share the data, and in this job none do "
         "({axes}); let 2 or more ranks share it (parallel.strategy = dp, "
         "parallel.dp = 2) or set optim.placement = none",
         "the shard of one rank is the whole: the placement would have no effect"},
    [CONSTRAINT_TRANSPORT] =
        {"comm.plugin, comm.AXIS.plugin",
         "transport {comm.plugin} cannot carry the mesh axis {axis} here: {reason}",
         "a transport that is named is used or refused, never replaced; auto "
         "takes the best of those that can"},
    [CONSTRAINT_CHECKSUM] =
        {"comm.checksum, comm.AXIS.checksum, comm.plugin",
         "the messages of {comm.plugin}, which carries the mesh axis {axis}, cannot have "
         "checksums: {reason}; set checksum = off for this axis, or name another transport",
         "checksums are of the core's own messages, and it is the host that computes them"},
    [CONSTRAINT_ALGORITHM] =
        {"comm.algorithm, comm.AXIS.algorithm, comm.plugin",
         "algorithm '{comm.algorithm}' cannot do {operation} over this link; use "
         "one of: {able}; or give it to some collectives alone, as KIND="
         "{comm.algorithm}, and the others are auto",
         "not every algorithm has every operation, and mapped needs memory that "
         "ranks share"},
    [CONSTRAINT_TUNED] =
        {"comm.TRANSPORT.latency, comm.TRANSPORT.message, comm.TRANSPORT.bandwidth",
         "{transport} has no bandwidth: give [comm.{transport}] latency, message and "
         "bandwidth together, as weft tune comm writes them, or none",
         "without it no time can be predicted, and the key would have no effect"},
    [CONSTRAINT_COMPRESS] =
        {"comm.compress, comm.AXIS.compress, parallel.strategy, parallel.AXIS",
         "{form} is for sums of gradients over ranks that share the data, and {reason}; let 2 or "
         "more ranks share it (parallel.strategy = dp, parallel.dp = 2) or set none",
         "nothing else is compressed: the key would have no effect"},
    [CONSTRAINT_COMPRESS_ALGORITHM] =
        {"comm.compress, comm.algorithm, comm.AXIS.algorithm",
         "sums of gradients that travel in {form} have their own algorithm and cannot use "
         "'{comm.algorithm}'; leave the algorithm of these sums at auto, or set comm.compress = "
         "none",
         "an algorithm that passes partial sums on would round them at every rank"},
    [CONSTRAINT_COMPRESS_TYPE] = {"comm.compress, train.accumulate, train.precision",
                                  "gradients are summed in {type} (train.accumulate = compute), "
                                  "which is not longer than {form}; set int8 or none",
                                  "the key would save nothing"},
    [CONSTRAINT_COMPRESS_LIBRARY] =
        {"comm.compress, comm.AXIS.compress, comm.plugin",
         "{comm.plugin} carries the mesh axis {axis} and brings its own collectives, which do not "
         "support compression; name another transport for the axis, or set none",
         "a library sums the numbers that it is given, in their type"},
    [CONSTRAINT_BATCH] =
        {"train.batch, train.microbatch, parallel.AXIS",
         "{train.batch} sequences are not a multiple of microbatch = "
         "{train.microbatch} times the {dp_size} ranks that share the data; give a "
         "batch that is a multiple of {each}, such as {next}",
         "a step is whole micro-batches, equally many on each of these ranks"},
    [CONSTRAINT_SEQUENCE] =
        {"train.sequence, model.family",
         "{train.sequence} tokens are more than the context of the model, {context}",
         "positions are known up to the context"},
    [CONSTRAINT_RATES] =
        {"optim.min_lr, optim.lr, optim.schedule",
         "{optim.min_lr} is above the peak, which is {optim.lr} ({place}): the learning rate would "
         "rise to it after the warm-up; give a min_lr of at most lr",
         "min_lr is where the learning rate falls to"},
    [CONSTRAINT_NO_EFFECT] =
        {"SECTION.KEY=VALUE",
         "the key has no effect: {reason}; change that as well, or leave it out",
         "whoever types a key waits for what it does; in a file it is a line of the log, so that a "
         "backend is swapped by editing one line"},
};

static const config_fact *find_fact(const config_fact *facts, const char *name, size_t n)
{
    for (; facts->name; facts++)
        if (strlen(facts->name) == n && !strncmp(facts->name, name, n))
            return facts;
    return NULL;
}

static void fill(const char *says, const config_fact *facts, char *out, size_t capacity)
{
    for (size_t used = 0; *says && used + 1 < capacity; out[used] = 0) {
        const size_t n = *says == '{' ? strcspn(says, "}") : 0;
        const config_fact *f = n ? find_fact(facts, says + 1, n - 1) : NULL;
        int k = f && f->text ? snprintf(out + used, capacity - used, "%s", f->text)
                : f          ? snprintf(out + used, capacity - used, "%lld", f->number)
                             : snprintf(out + used, capacity - used, "%c", *says);
        used += (size_t)k < capacity - used ? (size_t)k : capacity - used - 1;
        says += f ? n + 1 : 1;
    }
}

weft_status config_refuse(config_constraint rule, const config *c, const char *key,
                          const config_fact *facts)
{
    const config_constraint_row *r = &config_constraint_rows[rule];
    char text[1024] = "", first[64];
    fill(r->says, facts, text, sizeof text);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(r->keys, ","), r->keys);
    return c ? config_fail(c, key ? key : first, "%s", text) : err_fail(WEFT_USAGE, "%s", text);
}
