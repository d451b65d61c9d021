/* graph/model/family.h: what a family's file gives to model.c, and gets from it. Private. */
#ifndef GRAPH_MODEL_FAMILY_H
#define GRAPH_MODEL_FAMILY_H

#include "graph/model/model.h"

typedef struct model_family {
    const char *name;
    int tied;                                     /* what MODEL_TIED_AUTO means */
    weft_status (*check)(const model_options *o); /* beyond what holds for all */
    weft_status (*build)(const weft_builder *b, const model_options *o, weft_tensor *out);
    int64_t (*params)(const model_options *o);
} model_family;

extern const model_family model_gpt2, model_llama;

/* A model in the making. After the first failure the calls below do nothing and answer 0, so that a
 * family reads as its formula; `st` is looked at once, at the end. */
typedef struct making {
    const weft_builder *b;
    const model_options *o;
    const char *prefix; /* of parameter names, "block.0."; "" for none */
    weft_status st;
} making;

void make_block(making *m, const char *name);
weft_tensor make_input(making *m, const char *name); /* i32 [tokens] */
weft_tensor make_param(making *m, const char *name, uint32_t rank, const weft_axis *axes,
                       const char *init);

#define MAKE_PREFIX 40

/* An op with the inputs that are not 0; the first of its outputs. */
#define MAKE_INPUTS 4
weft_tensor make_op(making *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                    const weft_tensor in[MAKE_INPUTS], uint32_t nout);

/* y [t, O..] of x [t, I..] and w [O.., I..]; b [O..] may be 0. */
weft_tensor make_linear(making *m, weft_tensor x, weft_tensor w, weft_tensor b);

/* Begin block i of the layers: "block.I", with parameters that are named so. `prefix` stays the
 * caller's, and in use until the next. */
void make_layer(making *m, int64_t i, char prefix[MAKE_PREFIX]);

/* How weights of products start: NORMAL, and the two products of a block that write into the
 * residual stream with a deviation smaller by the root of their number, so that the stream's
 * variance does not grow with depth. */
#define NORMAL "normal:0.02"
void make_small_normal(const model_options *o, char init[48]);

/* Softmax cross-entropy of logits [tokens, vocab] against the targets, as `want` asks; the loss, or
 * the logits themselves. */
weft_tensor make_loss(making *m, weft_tensor logits);

#endif
