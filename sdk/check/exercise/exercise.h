/* check/exercise/exercise.h: a short lawful life of every component of a plugin, for checks of any
 * kind of plugin: what the plugin did meanwhile is what such a check looks at.
 *
 *   weft.rule/1, weft.strategy/1, weft.placement/1   a small job is planned with the component; ops
 *                                                    and kernels of the file take part where its
 *                                                    strategies use them
 *   weft.model/1    a small job of the family is planned, of a text, of vectors, or without data
 *   weft.device/1   query and fuse; where probe() finds a device, also arena, copies and an op
 *   weft.link/1     two links of the module in this process: connect, send, receive, disconnect
 *   weft.coll/1     probe
 *   weft.data/1     a set for training and one for validation: describe, read
 *   weft.tokenizer/1   a line: encode, decode
 *   weft.sink/1     two steps of values and the events of a short run, in a folder of its own
 *
 * This folder has the calls of plugins' tables that such a life makes; `where` is the last one. */
#ifndef CHECK_EXERCISE_EXERCISE_H
#define CHECK_EXERCISE_EXERCISE_H

#include "check/exercise/lend.h"
#include "check/harness/harness.h"

#include <weft/model.h>

/* The job that is planned; 0 and NULL: a small one. */
typedef struct check_exercise_job {
    uint32_t family; /* 0: the default of model.family; else another one that is installed */
    uint32_t layers, heads, embed, vocab, batch;
} check_exercise_job;

typedef struct check_exercise {
    check_run *run; /* check_load() has been called */
    check_host *host;
    void *module;
    const char *where; /* "the member create of 'tcp'" is where = "create" and of = "tcp" */
    const char *of;
    check_exercise_job job;
    check_lend lend;     /* how arguments are altered */
    int32_t score;       /* of the last probe() */
    bool objects;        /* only links and devices, whose objects may be entered at once */
    bool paper;          /* only calls that a plan makes */
    bool large;          /* the model may be as large as its options allow: it is not planned */
    const char *without; /* "fuse": an optional member that is not called; NULL: all are */
    uint64_t digest;     /* of the plans that were made */
    char absent[1024]; /* why the last component was not driven to its end: no device; "": it was */
} check_exercise;

/* Returns the first failure. Its sentence is in the host's record, or in err_text() where it was
 * recorded with a builder. A component that cannot be used on this machine is driven as far as it
 * goes, and noted by check_absent(). */
weft_status check_exercise_all(check_exercise *d);

/* A component behind a table that lends its arguments: the module that the core calls. */
typedef struct check_behind {
    check_exercise *d;
    const host_component *c;
} check_behind;

/* The table of a model family behind such a module; then, for the spec: describe() of the family
 * under check, or an installed family with its options, which the caller destroys after the plan.
 * s->family.c stays NULL, and d->absent says why, where there is none that can be planned. */
struct spec;
extern const weft_model_table check_exercise_model_lent;
weft_status check_exercise_describe(check_exercise *d, const host_component *own,
                                    const weft_conf *conf, struct spec *s);
weft_status check_exercise_build(struct spec *s); /* its graphs alone */
weft_status check_exercise_family(check_exercise *d, struct spec *s, config **options);

/* The job without model, mesh and strategies, and with stand-ins for its other plugins; and a
 * strategy that splits the batch over an axis "batch", which it does not bring itself. */
void check_exercise_spec(struct spec *s, const check_exercise *d);
extern const host_component check_exercise_batch;

/* One component. */
weft_status check_exercise_plan(check_exercise *d, const host_component *c);
weft_status check_exercise_device(check_exercise *d, const host_component *c);
weft_status check_exercise_link(check_exercise *d, const host_component *c);
weft_status check_exercise_coll(check_exercise *d, const host_component *c);
weft_status check_exercise_data(check_exercise *d, const host_component *c);
weft_status check_exercise_tokenizer(check_exercise *d, const host_component *c);
weft_status check_exercise_sink(check_exercise *d, const host_component *c);

/* The options with which a source may find data: number 0 those that it has, then others that name
 * a file of the checker; NULL: there are no more. check_exercise_files() makes the files, once. */
const weft_conf *check_exercise_data_conf(check_host *h, const host_component *c, uint32_t number);

/* Whether `call` ("read") has said with `st` that there is no data with options `number`, rather
 * than failed: open() may always, info() and read() of a file of the checker. Then the sentence
 * with the option that names data, and what the source said (`why`). */
bool check_exercise_data_none(const host_component *c, uint32_t number, const char *call,
                              weft_status st, const char *why, char out[1024]);

/* The bytes of one row of a field of the source `of`. A field that no source may have fails the
 * check. */
uint64_t check_exercise_field_bytes(const char *of, const struct weft_field *f);
void check_exercise_files(void);

/* Whether the answer of probe() means that the component cannot be used here: d->absent becomes its
 * reason, and the record is forgotten. */
bool check_exercise_absent(check_exercise *d, weft_status st, int32_t score);

bool check_exercise_is_without(const check_exercise *d, const char *member);

/* A call in a step, which check_step names. */
#define CHECK_STEP(name, call)                                                                     \
    ({                                                                                             \
        atomic_store(&check_step, name);                                                           \
        const weft_status step_ = (call);                                                          \
        atomic_store(&check_step, NULL);                                                           \
        step_;                                                                                     \
    })

/* open(), check_exercise_all(), close(), with check_fail() on the first failure; d->run is loaded.
 * The host is begun by the caller and still there. */
void check_exercise_life(check_exercise *d);

/* The sentence of the last failure; "" without one. */
const char *check_exercise_why(const check_exercise *d);

#endif
