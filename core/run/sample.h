/* run/sample.h: generates text with a model from a checkpoint. */
#ifndef RUN_SAMPLE_H
#define RUN_SAMPLE_H

#include <stdint.h>
#include <stdio.h>
#include <weft/base.h>

typedef struct sample_options {
    const char *prompt; /* text where the job has a tokenizer for its model, else token numbers */
    uint64_t tokens;    /* number to generate */
    double temperature; /* 0: always the most likely token */
    uint64_t top;       /* sample among this many most likely tokens; 0: all */
    uint64_t seed;
    const char *plugins;          /* folders searched first, or NULL */
    const char *const *overrides; /* "section.key=value" of the checkpoint's job */
    uint32_t noverrides;
} sample_options;

/* Runs on one rank, whatever layout the checkpoint has, and writes the prompt and the generated
 * text. [setup] */
weft_status run_sample_checkpoint(const char *dir, const sample_options *o, FILE *to);

#endif
