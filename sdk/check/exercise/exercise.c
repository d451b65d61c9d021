/* check/exercise/exercise.c: drives every component of a plugin. See exercise.h. */
#include "check/exercise/exercise.h"

#include <string.h>

static const struct {
    const char *iface;
    weft_status (*run)(check_exercise *d, const host_component *c);
} drivers[] = {
    {"weft.rule/1", check_exercise_plan},           {"weft.strategy/1", check_exercise_plan},
    {"weft.placement/1", check_exercise_plan},      {"weft.device/1", check_exercise_device},
    {"weft.link/1", check_exercise_link},           {"weft.coll/1", check_exercise_coll},
    {"weft.model/1", check_exercise_plan},          {"weft.data/1", check_exercise_data},
    {"weft.tokenizer/1", check_exercise_tokenizer}, {"weft.sink/1", check_exercise_sink},
};

static weft_status drive_one(check_exercise *d, const host_component *c)
{
    weft_status st = WEFT_OK;
    d->of = c->name;
    d->absent[0] = 0;
    if (d->objects && strcmp(c->iface, "weft.link/1") != 0 &&
        strcmp(c->iface, "weft.device/1") != 0)
        return WEFT_OK;
    for (size_t k = 0; st == WEFT_OK && k < sizeof drivers / sizeof *drivers; k++)
        if (!strcmp(c->iface, drivers[k].iface))
            st = drivers[k].run(d, c);
    /* a value that a check gave an option may be what the component refuses */
    if (st == WEFT_OK && d->absent[0] && !d->lend.altered && !d->host->set_of)
        check_absent("'%s' cannot be used on this machine, so only a part of its calls was "
                     "checked: %s",
                     c->name, d->absent);
    return st;
}

weft_status check_exercise_all(check_exercise *d)
{
    weft_status st = WEFT_OK;
    d->digest = 0;
    for (uint32_t i = 0; st == WEFT_OK && !d->lend.altered && i < d->run->n; i++)
        st = drive_one(d, d->run->components[i]);
    return st;
}

void check_exercise_life(check_exercise *d)
{
    const weft_manifest *m = check_manifest(d->run);
    d->where = "open";
    d->of = m->id;
    weft_status st = check_open(m, d->host, &d->module);
    if (st == WEFT_OK)
        st = check_exercise_all(d);
    if (st != WEFT_OK)
        check_fail("a lawful call failed: %s() of '%s' returned %s: %s", d->where, d->of,
                   check_status(st), check_exercise_why(d));
    check_close(m, d->module);
}
