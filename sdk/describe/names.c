/* describe/names.c: the tables of names.h. A test compares them with the graphs of all
 * families, and with the headers. */
#include "describe/names.h"

#include <string.h>

const describe_name describe_names_axes[] = {
    {"tokens", "tokens of a micro-batch: sequences times their length, in order"},
    {"embed", "the residual stream"},
    {"heads", "heads of queries, and of the results of attention"},
    {"kv_heads", "heads of keys and values where those are tensors of their own"},
    {"head_dim", "elements of one head"},
    {"three", "queries, keys and values in one tensor, in this order"},
    {"ffn", "the inner features of a feed-forward layer"},
    {"vocab", "rows of the token embedding, and logits"},
    {"context", "positions of a learned position embedding"},
    {"sums", "the two sums of xent.sums"},
    {0},
};

const describe_name describe_names_inputs[] = {
    {"tokens", "ids of the tokens"},
    {"targets", "ids of the tokens that follow; a negative id counts nothing"},
    {"positions", "position of each token in its sequence, from 0"},
    {"document_positions", "from data that tells documents apart: tokens of its document before a "
                           "token; gpt2 and llama keep attention within documents then"},
    {"first_token", "an int64 scalar: number in the whole run of the micro-batch's first token"},
    {0},
};

const describe_name describe_names_scalars[] = {
    {"lr", "the learning rate of this step, schedule included"},
    {"count", "updates done, this one included: 1 at the first; does not move on a skipped step"},
    {"loss", "sum over the step of the loss a token, already divided by the step's tokens"},
    {"scale", "loss scale: what the loss gradient is multiplied by; 1 without scaling"},
    {"clip", "factor for gradients: clipping and the inverse of the loss scale in one"},
    {"gate", "1, or 0 when the step is skipped: every assignment of an update obeys it"},
    {"norm", "global gradient norm before clipping, each element counted once"},
    {"step", "number of this step, 1 at the first; moves on a skipped step; exact up to 2^24"},
    {0},
};

const describe_name describe_names_reserved[] = {
    {"count.low", "the rounding error of count"},
    {"skipped", "steps skipped"},
    {"scale.good", "steps since the loss scale last changed"},
    {"kept", "factor of the error-feedback residuals in the next step"},
    {0},
};

const describe_name describe_names_blocks[] = {
    {"embed", "the embeddings"},
    {"block.N", "layer N, from 0"},
    {"head", "the last normalisation, the product with the vocabulary, and the loss"},
    {0},
};

const describe_name describe_names_nodes[] = {
    {"all_reduce", "communication; its input is partial, its output whole"},
    {"reduce_scatter", "communication; its input is partial, its output split"},
    {"all_gather", "communication; its input is split, its output whole"},
    {"all_to_all", "communication; its input is split along one axis, its output along another"},
    {"shift", "communication; each coordinate gets the part of another one"},
    {"assign", "its input replaces its output at the end of the step"},
    {0},
};

const describe_name describe_names_device[] = {
    {"ew", "elementwise ops in one program (weft_ew_program)"},
    {0},
};
