/* run/sample.h: text from a checkpoint. */
#ifndef RUN_SAMPLE_H
#define RUN_SAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

typedef struct sample_options {
    const char *prompt; /* bytes of a byte-level model; token numbers otherwise */
    uint64_t tokens;    /* to write */
    double temperature; /* 0: always the likeliest */
    uint64_t top;       /* among so many likeliest; 0: all */
    uint64_t seed;
    const char *plugins; /* folders searched first, or NULL */
} sample_options;

/* One rank, whatever the layout that trained it. Writes the prompt and what follows. [setup] */
weft_status sample_checkpoint(const char *dir, const sample_options *o, FILE *to);

#endif
