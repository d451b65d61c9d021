/* resolve/data.c: the source of the job's samples and its tokenizer, with their keys. */
#include "resolve/internal.h"

#include <weft/data.h>

static const char *const data_ifaces[] = {"weft.data/1", NULL};

weft_status resolve_data(resolve_state *r)
{
    spec *s = r->spec;
    weft_status st = resolve_find(r, "data", config_text(r->cfg, "data.source"), "data.source",
                                  data_ifaces, "data", &s->source.c);
    if (st == WEFT_OK)
        st = host_use(s->host, s->source.c);
    if (st == WEFT_OK)
        st = resolve_check_flags(s->source.c, "data source",
                                 ((const weft_data_table *)s->source.c->table)->flags);
    return st == WEFT_OK ? resolve_tokenizer(r) : st;
}

/* It is not in use before it is opened: most jobs have tokens already. */
weft_status resolve_tokenizer(resolve_state *r)
{
    spec *s = r->spec;
    weft_status st =
        resolve_find(r, "tokenizer", config_text(r->cfg, "data.tokenizer"), "data.tokenizer",
                     resolve_tokenizer_ifaces, "tokenizer", &s->tokenizer.c);
    return st == WEFT_OK
               ? resolve_check_flags(s->tokenizer.c, "tokenizer",
                                     ((const weft_tokenizer_table *)s->tokenizer.c->table)->flags)
               : st;
}

weft_status resolve_open_source(config *cfg, spec *s)
{
    s->source.conf = config_conf(cfg, "data", s->source.c->own);
    return host_open(s->host, s->source.c);
}

weft_status resolve_open_tokenizer(config *cfg, spec *s)
{
    s->tokenizer.conf = config_conf(cfg, "tokenizer", s->tokenizer.c->own);
    weft_status st = host_use(s->host, s->tokenizer.c);
    return st == WEFT_OK ? host_open(s->host, s->tokenizer.c) : st;
}
