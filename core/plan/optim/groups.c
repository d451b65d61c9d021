/* plan/optim/groups.c: which parameters are in which parameter group of the job ([optim.NAME]).
 *
 * The update of a group is built with the group's options and learning rate (rule.c). Parameters
 * of different groups never share a call of an elementwise rule, nor a group of slices. */
#include "plan/optim/optim.h"

#include "base/err.h"

static weft_status some_match(const plan_builder *b, const spec_group *x)
{
    return graph_has_param(b->g, x->params)
               ? WEFT_OK
               : err_fail(WEFT_USAGE, "%s: no parameter of the model has a name like '%s'",
                          x->where, x->params);
}

static weft_status find_group(plan_builder *b, plan_flat_param *p)
{
    const spec *s = b->p->spec;
    for (uint32_t i = 0; i < s->ngroups; i++) {
        if (!graph_glob_match_role(s->groups[i].params, p->name, p->role))
            continue;
        if (p->rule_group)
            return err_fail(WEFT_USAGE,
                            "%s: %s is in the group [optim.%s] already; a parameter is in one "
                            "group, and an alternative !NAME takes it out",
                            s->groups[i].where, p->name, s->groups[p->rule_group - 1].name);
        p->rule_group = 1 + i;
        b->p->groups.at[i].params++;
        b->p->groups.at[i].elements += p->count;
    }
    return WEFT_OK;
}

weft_status plan_groups_prepare(plan_builder *b)
{
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < b->p->spec->ngroups; i++) {
        *vec_push(&b->p->groups) = (plan_group_size){0};
        st = some_match(b, &b->p->spec->groups[i]);
    }
    for (uint32_t i = 0; st == WEFT_OK && i < b->f->params.n; i++)
        st = find_group(b, &b->f->params.at[i]);
    return st;
}
