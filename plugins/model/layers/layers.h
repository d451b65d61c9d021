/* layers.h: the options and layers that the transformer families have in common.
 *
 * Two files: options.c declares and reads the keys of [model], layers.c builds. They are a static
 * library: each plugin of a family contains a copy, with hidden symbols.
 *
 * A family's build() makes one `layers` and calls these functions in the order of its formula.
 * After the first failure they do nothing and return 0, so that a family checks `st` once, at the
 * end. They append to the graph of the builder. [plan] */
#ifndef LAYERS_LAYERS_H
#define LAYERS_LAYERS_H

#include <stdbool.h>
#include <weft/model.h>

/* --- options.c --- */

/* The keys that mean the same in every family. */
extern const weft_option layers_key_layers, layers_key_heads, layers_key_embed, layers_key_ffn,
    layers_key_context, layers_key_vocab, layers_key_norm_eps, layers_key_dropout;

/* Members of a weft_option for keys that families describe in their own words. */
#define LAYERS_KEY(type, key, dflt, help, choices, min, max)                                       \
    {                                                                                              \
        sizeof(weft_option), type, key, dflt, help, choices, min, max                              \
    }

typedef struct layers_options {
    int64_t layers, heads, kv_heads, embed, ffn, context, vocab;
    int64_t head_dim;  /* elements of a head; 0: embed / heads */
    bool tied;         /* the head shares the weights of the embedding */
    double rope_theta; /* base of the angles that encode positions */
    double norm_eps;   /* added to the variance before a normalisation divides by it */
    double dropout;    /* in [0, 1) */
} layers_options;

/* Read the keys; `tied` is what `tied = auto` means. The kv_heads are those in effect. vocab is
 * left at 0 where the data gives it. */
void layers_read(const weft_conf *conf, bool tied, layers_options *o);

/* Check what every family asks of its options, and take the vocabulary of the data (NULL: there is
 * none) for vocab = 0; a head_dim of 0 becomes that in effect. WEFT_USAGE names the key. */
weft_status layers_check(const weft_host *host, const weft_data_info *data, layers_options *o);

/* Record a sentence and return WEFT_USAGE. */
weft_status layers_refuse(const weft_host *host, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- layers.c --- */

typedef struct layers {
    const weft_builder *b;
    const layers_options *o;
    const weft_model_args *args;
    const char *prefix; /* of parameter names, "block.0."; "" for none */
    weft_tensor places; /* of each token in its document; 0: the data does not tell documents apart
                           (layers_documents()) */
    weft_status st;     /* the first failure */
} layers;

/* Begin: checks what is asked for. */
layers layers_begin(const weft_host *host, const weft_model_args *args, const weft_builder *b,
                    const layers_options *o);

/* Begin a block with this name. */
void layers_block(layers *m, const char *name);

/* An i32 input [tokens]. */
weft_tensor layers_input(layers *m, const char *name);

/* Take the field document_positions, if the data has it: attention stays within documents then. In
 * the first block. */
void layers_documents(layers *m);

/* A parameter PREFIX + `name`, with the role that goes with the name. `init`: "zeros", "ones" or
 * "normal:DEVIATION". */
weft_tensor layers_param(layers *m, const char *name, uint32_t rank, const weft_axis *axes,
                         const char *init);

#define LAYERS_PREFIX 40

/* An op whose inputs are those of `in` that are not 0; returns its first output. */
#define LAYERS_INPUTS 4
weft_tensor layers_op(layers *m, const char *id, const weft_attr *attrs, uint32_t nattr,
                      const weft_tensor in[LAYERS_INPUTS], uint32_t nout);

/* y [t, O..] of x [t, I..] and w [O.., I..]; b [O..] may be 0. */
weft_tensor layers_linear(layers *m, weft_tensor x, weft_tensor w, weft_tensor b);

/* Dropout of x + b, added to r, with numbers of the stream PREFIX + `name`; b [O..] and r, or r
 * alone, may be 0. Without dropout in these options: x itself, bias_residual of all three, or the
 * sum of x and r. */
weft_tensor layers_dropout(layers *m, const char *name, weft_tensor x, weft_tensor b,
                           weft_tensor r);

/* Begin layer i: the block "block.I", with the prefix "block.I." for its parameters. `prefix` is
 * the caller's memory, in use until the next layer begins. */
void layers_next(layers *m, int64_t i, char prefix[LAYERS_PREFIX]);

/* Initial values of matrices: LAYERS_INIT_NORMAL, except for the two matrices of a block that write
 * into the residual stream. Their deviation is smaller by the square root of the number of such
 * matrices, so that the variance of the stream does not grow with depth (GPT-2). */
#define LAYERS_INIT_NORMAL "normal:0.02"
void layers_residual_init(const layers_options *o, char init[48]);

/* Softmax cross-entropy of logits [tokens, vocab] against the targets: the loss, or where logits
 * are wanted the logits themselves. */
weft_tensor layers_loss(layers *m, weft_tensor logits);

#endif
