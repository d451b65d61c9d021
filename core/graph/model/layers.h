/* graph/model/layers.h: the layers of the model families.
 *
 * A family's build function makes one `graph_layers` and calls these functions in the order of its
 * formula. After the first failure they do nothing and return 0, so that a family checks `st` once,
 * at the end. They append to the graph of the builder. [plan] */
#ifndef GRAPH_MODEL_LAYERS_H
#define GRAPH_MODEL_LAYERS_H

#include "graph/model/model.h"

typedef struct graph_layers {
    const weft_builder *b;
    const graph_model_options *o;
    const char *prefix; /* of parameter names, "block.0."; "" for none */
    weft_status st;     /* the first failure */
} graph_layers;

/* Begin a block with this name. */
void graph_layer_block(graph_layers *m, const char *name);

/* An i32 input [tokens]. */
weft_tensor graph_layer_input(graph_layers *m, const char *name);

/* A parameter PREFIX + `name`, with the role that goes with the name. `init`: "zeros", "ones" or
 * "normal:DEVIATION". */
weft_tensor graph_layer_param(graph_layers *m, const char *name, uint32_t rank,
                              const weft_axis *axes, const char *init);

#define GRAPH_LAYER_PREFIX 40

/* An op whose inputs are those of `in` that are not 0; returns its first output. */
#define GRAPH_LAYER_INPUTS 4
weft_tensor graph_layer_op(graph_layers *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                           const weft_tensor in[GRAPH_LAYER_INPUTS], uint32_t nout);

/* y [t, O..] of x [t, I..] and w [O.., I..]; b [O..] may be 0. */
weft_tensor graph_layer_linear(graph_layers *m, weft_tensor x, weft_tensor w, weft_tensor b);

/* Dropout of x + b, added to r, with numbers of the stream PREFIX + `name`; b [O..] and r, or r
 * alone, may be 0. Without dropout in these options: x itself, bias_residual of all three, or the
 * sum of x and r. */
weft_tensor graph_layer_dropout(graph_layers *m, const char *name, weft_tensor x, weft_tensor b,
                                weft_tensor r);

/* Begin layer i: the block "block.I", with the prefix "block.I." for its parameters. `prefix` is
 * the caller's memory, in use until the next layer begins. */
void graph_layer_begin(graph_layers *m, int64_t i, char prefix[GRAPH_LAYER_PREFIX]);

/* Initial values of matrices: GRAPH_INIT_NORMAL, except for the two matrices of a block that write
 * into the residual stream. Their deviation is smaller by the square root of the number of such
 * matrices, so that the variance of the stream does not grow with depth (GPT-2). */
#define GRAPH_INIT_NORMAL "normal:0.02"
void graph_layer_residual_init(const graph_model_options *o, char init[48]);

/* Softmax cross-entropy of logits [tokens, vocab] against the targets: the loss, or with
 * MODEL_LOGITS the logits themselves. */
weft_tensor graph_layer_loss(graph_layers *m, weft_tensor logits);

#endif
