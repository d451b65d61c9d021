/* graph/model/model.h: model families, built into a graph from the sizes of [model].
 *
 * A family is a row of the table in model.c and a file of its own. Parameters are named
 * "block.0.attn.qkv.w"; the axis that runs through the whole model, that of the residual stream, is
 * "embed" in every family. */
#ifndef GRAPH_MODEL_MODEL_H
#define GRAPH_MODEL_MODEL_H

#include <weft/graph.h>

#define MODEL_TRAIN 0 /* the loss, with its gradient */
#define MODEL_EVAL 1  /* the loss alone */
#define MODEL_LOGITS 2

#define MODEL_TIED_AUTO (-1) /* as is usual in the family */
#define MODEL_ROPE_THETA 1e4

typedef struct graph_model_options {
    const char *family;
    int64_t layers, heads, kv_heads; /* kv_heads 0: as heads */
    int64_t embed, ffn, context, vocab;
    int tied;          /* does the head share the embedding's weights: 1, 0 or MODEL_TIED_AUTO */
    int64_t batch;     /* sequences of a micro-batch, over the whole data-parallel job */
    int64_t sequence;  /* tokens a sequence */
    double weight;     /* of a token's loss: 1 / tokens in a step */
    int want;          /* MODEL_... */
    double dropout;    /* probability that an element of the embedding, or of what a block adds to
                          the residual stream, is dropped; only with MODEL_TRAIN */
    double rope_theta; /* base of the rotary angles; 0: MODEL_ROPE_THETA */
    double norm_eps;   /* added to the variance that a normalisation divides by; 0: 1e-5 */
} graph_model_options;

/* Build the graph. *out is the loss, or the logits [tokens, vocab]. Invalid options are WEFT_USAGE,
 * naming the key. [plan] */
weft_status graph_model_build(const weft_builder *b, const graph_model_options *o,
                              weft_tensor *out);

/* Elements of all parameters; 0 for options that graph_model_build() rejects. [plan] */
int64_t graph_model_params(const graph_model_options *o);

#endif
