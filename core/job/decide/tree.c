/* job/decide/tree.c: see tree.h. */
#include "job/decide/tree.h"

uint32_t job_tree_fanout = JOB_TREE_FANOUT;

uint32_t job_tree_parent(const job_tree *t, uint32_t rank)
{
    return rank ? (rank - 1) / t->fanout : 0;
}

uint32_t job_tree_children(const job_tree *t, uint32_t rank, uint32_t *first)
{
    const uint64_t from = (uint64_t)rank * t->fanout + 1, to = from + t->fanout;
    *first = from < t->ranks ? (uint32_t)from : t->ranks;
    return (to < t->ranks ? (uint32_t)to : t->ranks) - *first;
}

bool job_tree_is_below(const job_tree *t, uint32_t top, uint32_t rank)
{
    if (rank >= t->ranks)
        return false;
    while (rank > top)
        if ((rank = job_tree_parent(t, rank)) == top)
            return true;
    return false;
}

uint32_t job_tree_interval(bool later, uint32_t beat, uint32_t silence)
{
    return later && beat < silence / 4 ? silence / 4 : beat;
}

job_watch_event job_tree_check_child(job_watch *w, uint64_t now, uint32_t silence)
{
    const uint64_t silent = now - w->last_seen;
    if (w->taken && silent >= silence / 2) {
        w->taken = false;
        return JOB_WATCH_RETURN;
    }
    if (!w->taken && silent < silence / 4) {
        w->taken = true;
        return JOB_WATCH_TAKE;
    }
    return JOB_WATCH_NONE;
}

void job_tree_rely(job_guard *g)
{
    g->relies = g->relied = true;
}

void job_tree_return(job_guard *g, uint64_t now, uint64_t silent, uint32_t silence)
{
    const uint64_t max = (uint64_t)silence / 4 * 3, counted = silent < max ? silent : max;
    const uint64_t last_seen = now > counted ? now - counted : 0;
    g->relies = false;
    g->last_seen = last_seen > g->last_seen ? last_seen : g->last_seen;
}

bool job_tree_is_frozen(const job_guard *g, uint64_t now, uint32_t silence)
{
    return !g->relies && now - g->last_seen >= silence;
}

job_root_event job_tree_check_root(bool attached, uint64_t silent, uint32_t silence)
{
    if (silent >= silence)
        return JOB_ROOT_FROZEN;
    return attached && silent < silence / 2 ? JOB_ROOT_WELL : JOB_ROOT_ASK;
}
