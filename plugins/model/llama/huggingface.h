/* huggingface.h: the names of this family's parameters and options in other programs. */
#ifndef LLAMA_HUGGINGFACE_H
#define LLAMA_HUGGINGFACE_H

#include <weft/model.h>

extern const weft_model_format *const llama_formats[]; /* NULL-ended */

#endif
