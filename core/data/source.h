/* data/source.h: a set of samples that a source (weft.data/1) has opened.
 *
 * These functions call the plugin and check what it answers: fields, sizes and identity are those
 * of a plugin, and the plan and the memory of a step depend on them. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include <weft/data.h>

#include "host/host.h"

typedef struct data_set {
    const host_component *source;
    weft_dataset *set; /* NULL: the job names none */
    weft_data_info info;
    uint64_t sequence; /* rows of a sample that `info` and read() are about; 0: not known yet */
} data_set;

/* Open what the options name for `use` (WEFT_DATA_...), and describe it for samples of one row. The
 * module of the source is open. out->set is NULL, with WEFT_OK, where nothing is named. [setup] */
weft_status data_set_open(const host_component *source, const weft_conf *conf, uint32_t use,
                          uint64_t seed, data_set *out);
void data_set_close(data_set *d); /* a zeroed one is allowed [setup] */

/* Describe it again for samples of `sequence` rows, which the set has. WEFT_USAGE: it has not one
 * such sample, or its fields, rows or vocabulary are others now. [setup] */
weft_status data_set_describe(data_set *d, uint64_t sequence);

/* Open the set of training again for a job that goes on from a checkpoint whose data had the
 * identity `resumes`, which is not what the set has now: the source may have sampled in another way
 * then (weft_data_args.resumes). A source that does not know of this keeps the set. [setup] */
weft_status data_set_resume(data_set *d, const weft_conf *conf, uint64_t seed, const char *resumes);

/* WEFT_USAGE, naming the difference, unless both have the same fields, rows and vocabulary. [any]
 */
weft_status data_set_compare(const data_set *train, const data_set *valid);

/* Write `count` samples from number `first` on. `out` has an entry a field, each for `count` *
 * `sequence` rows; NULL: not wanted. [compute] */
weft_status data_set_read(data_set *d, uint64_t first, uint64_t count, void *const *out);

#endif
