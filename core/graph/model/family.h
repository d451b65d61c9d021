/* graph/model/family.h: the entry of a model family in the table of model.c. Private. */
#ifndef GRAPH_MODEL_FAMILY_H
#define GRAPH_MODEL_FAMILY_H

#include "graph/model/model.h"

typedef struct model_family {
    const char *name;
    int tied;                                           /* what MODEL_TIED_AUTO means */
    weft_status (*check)(const graph_model_options *o); /* beyond the common checks */
    weft_status (*build)(const weft_builder *b, const graph_model_options *o, weft_tensor *out);
    int64_t (*params)(const graph_model_options *o);
} model_family;

extern const model_family graph_model_gpt2, graph_model_llama;

#endif
