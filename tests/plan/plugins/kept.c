/* Strategies that only set how activations are stored. */
#include <weft/strategy.h>

static weft_status keep_in(uint32_t when, uint32_t phase, const weft_edits *e, const char *names,
                           uint32_t how)
{
    return phase == when
               ? e->activations(e->ctx, names, how, how == WEFT_ACTIVATION_SPLIT ? "rows" : NULL, 0)
               : WEFT_OK;
}

static weft_status remaker(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                           const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_MEMORY, phase, e, "gelu#*", WEFT_ACTIVATION_RECOMPUTE);
}

static weft_status keeper(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                          const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_MEMORY, phase, e, "linear#*|gelu#*", WEFT_ACTIVATION_WHOLE);
}

static weft_status cutter(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                          const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_MEMORY, phase, e, "*", WEFT_ACTIVATION_SPLIT);
}

static weft_status hasty(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                         const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_SYNC, phase, e, "*", WEFT_ACTIVATION_RECOMPUTE);
}

static weft_status misled(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                          const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_MEMORY, phase, e, "no.such#*", WEFT_ACTIVATION_RECOMPUTE);
}

static weft_status vague(void *m, const weft_conf *c, uint32_t phase, const weft_view *v,
                         const weft_edits *e)
{
    (void)m, (void)c, (void)v;
    return keep_in(WEFT_PHASE_MEMORY, phase, e, "*", 7);
}

#define KEEPER(word)                                                                               \
    static const weft_strategy strategy_##word = {sizeof strategy_##word, 0, NULL, word, NULL};    \
    static const weft_component component_##word =                                                 \
        {sizeof component_##word, 0,   "weft.strategy/1", #word, "keeps", NULL,                    \
         &strategy_##word,        NULL}
KEEPER(remaker);
KEEPER(keeper);
KEEPER(cutter);
KEEPER(hasty);
KEEPER(misled);
KEEPER(vague);

static const weft_component *const components[] = {&component_remaker,
                                                   &component_keeper,
                                                   &component_cutter,
                                                   &component_hasty,
                                                   &component_misled,
                                                   &component_vague,
                                                   NULL};

WEFT_PLUGIN("weft.kept", "0", "", components, weft_open_host, NULL);
