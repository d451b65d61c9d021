/* formats/formats.h: weights in files of other programs.
 *
 * Two formats of files are known: "huggingface", a folder with config.json and safetensors files,
 * and "llmc", a checkpoint file of llm.c. What is called how in them, a model family says as
 * constant data (weft/model.h): names and axes of tensors, fields of the configuration. So this
 * module knows files, and no family.
 *
 *   import   a file or folder becomes a checkpoint of weights, with a job.ini for its model
 *   export   a checkpoint becomes a file or folder that the other program loads
 *   open     a training job reads its part of the weights from a folder: [checkpoint] init
 *
 * A file is opened in two steps. Its source is read first: the configuration as JSON, and of each
 * tensor its name, type, shape and place. Then it is bound to the parameters of a model: each
 * parameter has one tensor, and each tensor that is left over has to be one that the family says is
 * to be skipped, or a copy of one that is bound, as files of models with a tied head may have.
 *
 * Everything in these files is checked before use: lengths against the file's, shapes against the
 * model's, names and JSON against bounds. Memory is bounded by the headers, whose lengths are
 * limited, and by buffers of a few MiB; no tensor is read whole, except one with transposed
 * axes of up to 32 MiB. Output appears complete or not at all. */
#ifndef FORMATS_FORMATS_H
#define FORMATS_FORMATS_H

#include <stdbool.h>
#include <stdio.h>

#include "ckpt/ckpt.h"
#include "config/config.h"
#include "plan/plan.h"
#include "run/state/foreign.h"

typedef run_foreign formats_file; /* bound to the parameters of a model */

/* The functions below, for run_train_rank(). */
extern const run_foreign_files formats_files;

/* Is `path` a folder with a config.json and without a checkpoint's manifest? [any] */
bool formats_is_folder(const char *path);

/* Open the folder `path` for the parameters of a job: its model must be that of [model] in `cfg`,
 * field by field. WEFT_USAGE names the field and the key. Free with formats_close(). [setup] */
weft_status formats_open(const char *path, const config *cfg, const plan_set *plans,
                         formats_file **out);
void formats_close(formats_file *f); /* NULL is allowed */

/* Elements [first, first + count) of a block of a parameter, as ckpt_read() has them, in fp32. From
 * one thread at a time. [setup] */
weft_status formats_read(formats_file *f, const ckpt_piece *want, float *out);

/* Of names, types, shapes and places of all tensors and of the configuration: equal where two ranks
 * see the same files, unless only values differ. [any] */
uint64_t formats_digest(const formats_file *f);

/* What to import or export. */
typedef struct formats_request {
    const char *format; /* "huggingface" or "llmc" */
    const char *from;   /* a folder or file; a checkpoint to export */
    const char *to;     /* the new folder or file */
    const char *dtype;  /* export: "fp32", "bf16" or "fp16" */
    const char *beside; /* export: a folder whose tokenizer files are copied; NULL: what the
                           import kept */
    const char *const *overrides; /* "model.context=2048" */
    uint32_t noverrides;
} formats_request;

/* Let an import or export that is under way fail, so that it removes what it has written. `number`
 * is a signal, whose handler may call this. [any] */
void formats_interrupt(int number);
int formats_interrupted(void); /* the signal; 0: none. [any] */

/* Write the checkpoint r->to, and tell `say` what to do with it. [setup] */
weft_status formats_import(const formats_request *r, FILE *say);

/* Write the file or folder r->to. [setup] */
weft_status formats_export(const formats_request *r, FILE *say);

#endif
