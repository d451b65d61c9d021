/* formats/pack.h: what an export writes, when it knows names and configuration. Private to this
 * folder. */
#ifndef FORMATS_PACK_H
#define FORMATS_PACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "formats/internal.h"

/* --- confirm.c: the sums of a checkpoint, by a thread while it is read --- */

typedef struct formats_confirm {
    const ckpt *c;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    weft_status st;
    err_record why;
} formats_confirm;

void formats_confirm_begin(formats_confirm *k, const ckpt *c); /* k is zero */
weft_status formats_confirm_end(formats_confirm *k); /* of ckpt_confirm(); waits for the thread */
void formats_confirm_stop(formats_confirm *k);       /* nobody will ask; `k` may be zero */

/* --- export.c, pack.c --- */

typedef struct formats_exporter {
    const formats_request *r;
    ckpt *c;
    formats_confirm confirm; /* of `c` */
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
