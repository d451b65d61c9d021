/* format.h: rows of a weft_model_format, for the tables of names of the families. */
#ifndef LAYERS_FORMAT_H
#define LAYERS_FORMAT_H

#include <weft/model.h>

#define FORMAT_ROW(param, name, axes)                                                              \
    &(const weft_model_tensor)                                                                     \
    {                                                                                              \
        sizeof(weft_model_tensor), 0, param, name, axes                                            \
    }
#define FORMAT_BARE(param, name, axes)                                                             \
    &(const weft_model_tensor)                                                                     \
    {                                                                                              \
        sizeof(weft_model_tensor), WEFT_TENSOR_BARE, param, name, axes                             \
    }

/* A field, and the key of [model] that it is; its values, and its default. */
#define FORMAT_KEY(field, key, values, dflt)                                                       \
    &(const weft_model_field)                                                                      \
    {                                                                                              \
        sizeof(weft_model_field), 0, key, field, dflt, values                                      \
    }

/* A field that must have one of these values. */
#define FORMAT_ONLY(field, dflt, values) FORMAT_KEY(field, NULL, values, dflt)

#endif
