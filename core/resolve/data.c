/* resolve/data.c: the source of the job's samples and its tokenizer, with their keys. */
#include "resolve/internal.h"

weft_status resolve_data(resolve_state *r)
{
    weft_status st = resolve_take(r, "data.source", NULL, &r->spec->source.c);
    return st == WEFT_OK ? resolve_tokenizer(r) : st;
}

/* It is not in use before it is opened: most jobs have tokens already. */
weft_status resolve_tokenizer(resolve_state *r)
{
    static const char key[] = "data.tokenizer";
    weft_status st = resolve_find(r, key, config_text(r->cfg, key), &r->spec->tokenizer.c);
    if (st != WEFT_OK)
        err_context("%s: %s", config_where(r->cfg, key), key);
    return st;
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
