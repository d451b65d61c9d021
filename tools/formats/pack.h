/* formats/pack.h: what an export writes, when it knows names and configuration. Private to this
 * folder. */
#ifndef FORMATS_PACK_H
#define FORMATS_PACK_H

#include "formats/internal.h"

typedef struct formats_exporter {
    const formats_request *r;
    ckpt *c;
    uint32_t dtype;
    formats_model model;
    const weft_model_format *format;
    json_t *config;      /* of the other program */
    formats_view *views; /* [params] */
    const char **names;  /* [params] there, with the prefix */
    const char *beside;  /* a folder whose small files are copied; NULL: none */
    bool trusted;        /* the user has named it: links in it are followed */
    pool mem;
} formats_exporter;

/* Write r->to: config.json, safetensors files of up to 5 GB, an index where there are several, and
 * the files beside them. [setup] */
weft_status formats_pack_folder(formats_exporter *x);

/* Write r->to, a file of llm.c. [setup] */
weft_status formats_pack_llmc(formats_exporter *x);

#endif
