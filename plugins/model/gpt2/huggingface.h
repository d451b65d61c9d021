/* huggingface.h: the names of this family's parameters and options in other programs. */
#ifndef GPT2_HUGGINGFACE_H
#define GPT2_HUGGINGFACE_H

#include <weft/model.h>

extern const weft_model_format *const gpt2_formats[]; /* NULL-ended */

#endif
