/* formats/internal.h: shared by the files of this folder.
 *
 *   text.c         JSON files, fields of JSON objects, numbers as text
 *   fields.c       configurations: into keys of [model], and back
 *   names.c        names of tensors and parameters; the order of axes
 *   source.c       what all opened files have in common
 *   safetensors.c  headers of safetensors files
 *   folder.c       a folder of Hugging Face as a source
 *   llmc.c         a file of llm.c as a source, and its head
 *   bind.c         parameters and their tensors
 *   turn.c         elements of a box into another order of axes
 *   read.c         values of parameters (formats_read)
 *   model.c        a model from INI text: its family, its parameters
 *   open.c         formats_open and its relatives
 *   beside.c       the small files of a folder that come along
 *   output.c       a folder that is written whole or not at all
 *   confirm.c      the sums of a checkpoint, while it is exported
 *   import.c, export.c, write.c   the rest of formats.h
 *
 * Parsers name the fault alone; callers put the file before it with err_context(). */
#ifndef FORMATS_INTERNAL_H
#define FORMATS_INTERNAL_H

#include <jansson.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/number/box.h"
#include "formats/formats.h"
#include "host/host.h"

#define FORMATS_CONFIG_MAX ((uint64_t)4 << 20) /* bytes of a config.json */
#define FORMATS_HEADER_MAX ((uint64_t)8 << 20) /* of a safetensors header, or of an index */
#define FORMATS_TEXT 256                       /* of a name, or of a value as text */
#define FORMATS_FILES_MAX 4096u
#define FORMATS_HUGGINGFACE "huggingface"
#define FORMATS_LLMC "llmc"

/* --- text.c --- */

/* The error, by errno, for a small file that cannot be opened; `follow`: links may lead elsewhere.
 */
weft_status formats_cannot_read(const char *name, bool follow);

/* A JSON object from a file of at most `max` bytes. */
weft_status formats_json_read(int folder, const char *name, bool follow, uint64_t max,
                              json_t **out);

/* The value at "a.b|c": the first of the paths that is there and not null; NULL: none. *found: that
 * path in `path`, if not NULL. */
const json_t *formats_json_find(const json_t *root, const char *names, char path[FORMATS_TEXT]);
void formats_json_put(json_t *root, const char *path, json_t *value); /* takes the value over */
void formats_json_drop(json_t *root, const char *path); /* and objects that it leaves empty */

/* A value as a word: text as it is, else as JSON, cut short. */
const char *formats_json_word(const json_t *value, char out[FORMATS_TEXT]);
json_t *formats_json_value(const char *word); /* the reverse: "true", "1.5", else text */

/* The shortest text that reads back as `x`. */
const char *formats_real_text(double x, char out[FORMATS_TEXT]);

/* The same words, or numbers of one value. */
bool formats_same_value(const char *a, const char *b);

/* The next part of "a|b|c" into `out`; false after the last. */
bool formats_next(const char **rest, char out[FORMATS_TEXT]);

/* --- fields.c --- */

typedef struct formats_setting { /* of [model] */
    const char *key, *value;
} formats_setting;
typedef VEC(formats_setting) formats_settings;

/* Is `architecture` one of those of the format? */
bool formats_is_of(const weft_model_format *f, const char *architecture);

/* The keys that a configuration means. WEFT_USAGE names the field that stands in the way. Texts are
 * in the pool; the caller frees out->at. */
weft_status formats_settings_of(const weft_model_format *f, const json_t *config, pool *p,
                                formats_settings *out);

/* The job's values of the keys as fields of `config`, whose other fields stay. WEFT_USAGE names the
 * key that this architecture cannot say. */
weft_status formats_config_of(const weft_model_format *f, const host_component *family,
                              const config *cfg, json_t *config);

/* Does the job have these settings? WEFT_USAGE names a key that differs. */
weft_status formats_settings_agree(const formats_settings *s, const host_component *family,
                                   const config *cfg);

/* --- names.c --- */

typedef struct formats_param {
    const char *name;
    weft_shape shape;
} formats_param;
typedef VEC(formats_param) formats_params;

/* The row of a parameter and its name there with the number in place of '*', without the prefix.
 * NULL: the format has none. */
const weft_model_tensor *formats_row_of(const weft_model_format *f, const char *param,
                                        char name[FORMATS_TEXT]);

/* The row that the tensor `name` of a file belongs to, with or without the prefix; NULL: none. */
const weft_model_tensor *formats_row_named(const weft_model_format *f, const char *name);

/* How a parameter lies in a file. */
typedef struct formats_view {
    uint32_t rank;                 /* axes of the parameter */
    uint32_t order[WEFT_MAX_AXES]; /* [axis of the file, split] the parameter's axis */
    bool plain;                    /* the same order */
    uint32_t there;                /* axes of the tensor there */
    int64_t shape[WEFT_MAX_AXES];  /* of the tensor there */
} formats_view;
weft_status formats_view_of(const weft_model_tensor *row, const formats_param *p,
                            formats_view *out);

/* --- source.c --- */

typedef struct formats_tensor { /* of a file */
    const char *name;
    uint32_t dtype; /* 0: a type that no parameter can have */
    uint32_t rank;
    int64_t shape[WEFT_MAX_AXES];
    uint32_t file;
    uint64_t at, bytes, count; /* in the file; count: elements */
    bool bound;
} formats_tensor;

typedef struct formats_source {
    pool mem;
    const char *format, *path;
    json_t *config;
    formats_tensor *tensors; /* [n], sorted by name */
    uint32_t n;
    int folder;         /* where the files are; -1: none */
    const char **files; /* [nfiles] names under `folder` */
    uint64_t *sizes;    /* [nfiles] */
    uint32_t nfiles;
    uint32_t opened; /* the file of `fd` */
    int fd;          /* -1: none */
} formats_source;

/* Sort the tensors; WEFT_DATA when two have one name. */
weft_status formats_source_sort(formats_source *s, const formats_tensor *tensors, uint32_t n);
formats_tensor *formats_source_find(const formats_source *s, const char *name);
weft_status formats_check_interrupted(void); /* see formats_interrupt() */
weft_status formats_source_bytes(formats_source *s, uint32_t file, uint64_t at, uint64_t bytes,
                                 void *out);
void formats_source_close(formats_source *s);

/* --- safetensors.c --- */

typedef VEC(formats_tensor) formats_tensors;

/* The JSON of a header with `data_bytes` behind it; tensors are appended, `at` counted from the
 * first byte of data. */
weft_status formats_header_parse(const char *text, uint64_t bytes, uint64_t data_bytes,
                                 uint32_t file, pool *p, formats_tensors *out);

/* The same from an open file of `size` bytes; `at` counts from its beginning. */
weft_status formats_header_read(int fd, uint64_t size, uint32_t file, pool *p,
                                formats_tensors *out);

/* The length word and JSON for tensors in the order of their bytes; the caller frees *text. */
weft_status formats_header_build(const formats_tensor *t, uint32_t n, char **text, uint64_t *bytes);

/* --- folder.c, llmc.c: open a source; the caller closes it, also after a failure --- */
weft_status formats_folder_open(const char *path, formats_source *s);
weft_status formats_llmc_open(const char *path, formats_source *s);

/* What llm.c has in its file, in order; the number in `layers` layers. Names have '*' where each
 * layer has its part. NULL-ended. */
extern const char *const formats_llmc_names[];
bool formats_llmc_per_layer(uint32_t i); /* tensor i is a stack of all layers */

/* The head of a file for a configuration with the fields of llmc.c. */
#define FORMATS_LLMC_HEAD 1024u
void formats_llmc_head(const json_t *config, bool bf16, unsigned char out[FORMATS_LLMC_HEAD]);
int64_t formats_llmc_padded(int64_t vocab);

/* --- beside.c --- */

/* Copy those files of configuration and tokenizer that the folder `from` has into the open folder
 * `to`; without `with_config` not config.json. A missing `from` is WEFT_USAGE, and without `follow`
 * so is a link. */
weft_status formats_beside_copy(const char *from, int to, bool with_config, bool follow);

/* --- turn.c --- */

typedef struct formats_turning { /* a box of elements that lie in two places */
    uint32_t rank;
    uint64_t size[WEFT_MAX_AXES];
    uint64_t in[WEFT_MAX_AXES], out[WEFT_MAX_AXES]; /* strides, in elements */
} formats_turning;
void formats_turn(const formats_turning *t, const float *in, float *out);

/* --- bind.c --- */

typedef struct formats_bound {
    const char *param;
    formats_view view;
    weft_shape shape; /* of the parameter */
    formats_tensor *tensor;
} formats_bound;

struct run_foreign { /* formats_file */
    formats_source source;
    const weft_model_format *format;
    formats_bound *at; /* [n], sorted by param */
    uint32_t n;
    uint64_t digest;
    float *there;       /* values of a box in the order of the file */
    uint64_t there_cap; /* elements of it */
    void *raw;          /* bytes as they are in the file */
    uint64_t raw_cap;
    const formats_tensor *held; /* whose bytes `raw` has, all of them; NULL: none */
};

/* Give every parameter its tensor, and refuse a tensor that is left over and no copy. */
weft_status formats_bind(formats_file *f, const formats_params *params);

/* --- model.c --- */

typedef struct formats_model {
    config *cfg;
    host *host;
    spec spec;
    plan_set plans;
    bool planned;
    formats_params params;
} formats_model;

/* The parameters of the plans of a job; the caller frees out->at. */
void formats_params_of(const plan_set *plans, formats_params *out);

/* The value that the request gives a key; NULL: it does not. */
const char *formats_override(const formats_request *r, const char *key);

/* Load `text` and plan its model for one rank. `vocab`: what data would say, 0: nothing. `name` is
 * for messages. Close it also after a failure. */
weft_status formats_model_open(const char *text, const char *name, const formats_request *r,
                               uint32_t vocab, formats_model *out);
void formats_model_close(formats_model *m);

/* The format and family for files of `architecture`; `family` NULL: any that is installed. */
weft_status formats_find(host *h, const char *format, const char *architecture, const char *family,
                         const weft_model_format **out, const host_component **owner);

/* --- open.c --- */

/* Open r->from as a source of r->format. */
weft_status formats_source_open(const char *format, const char *path, formats_source *s);

/* The name of the configuration's architecture. */
weft_status formats_architecture(const formats_source *s, char out[FORMATS_TEXT]);

/* --- write.c --- */

typedef struct formats_capacity { /* of a writer */
    float *at;
    uint64_t n;
} formats_capacity;

/* Parameters on their way into a file, one tensor after the other, each forwards. Its rooms are
 * freed by formats_write_end(). */
typedef struct formats_writer {
    const ckpt *c;
    int fd;
    uint32_t dtype;
    uint64_t done;   /* bytes written */
    uint64_t handed; /* of these, that the disk was told to write */
    formats_capacity in, out;
} formats_writer;
weft_status formats_write_param(formats_writer *w, const formats_param *p, const formats_view *v);
weft_status formats_write_bytes(formats_writer *w, const void *data, uint64_t bytes);
void formats_write_end(formats_writer *w);

/* Convert between fp32 and a type of files. */
void formats_widen(uint32_t dtype, const void *in, uint64_t n, float *out);
void formats_narrow(uint32_t dtype, const float *in, uint64_t n, void *out);

#endif
