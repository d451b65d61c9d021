/* format.h: rows of a weft_model_format, for the tables of names of the families. */
#ifndef LAYERS_FORMAT_H
#define LAYERS_FORMAT_H

#include <weft/model.h>

#define FORMAT_TENSOR(flags, param, name, axes)                                                    \
    &(const weft_model_tensor)                                                                     \
    {                                                                                              \
        sizeof(weft_model_tensor), flags, param, name, axes                                        \
    }
#define FORMAT_FIELD(flags, field, key, values, dflt)                                              \
    &(const weft_model_field)                                                                      \
    {                                                                                              \
        sizeof(weft_model_field), flags, key, field, dflt, values                                  \
    }

/* A parameter, with the format's prefix; and one that never has it. */
#define FORMAT_ROW(param, name, axes) FORMAT_TENSOR(0, param, name, axes)
#define FORMAT_BARE(param, name, axes) FORMAT_TENSOR(WEFT_TENSOR_BARE, param, name, axes)

/* A field, and the key of [model] that it is; its values, and its default. */
#define FORMAT_KEY(field, key, values, dflt) FORMAT_FIELD(0, field, key, values, dflt)
#define FORMAT_PLAIN(field, key, dflt)                                                             \
    FORMAT_FIELD(0, field, key, NULL, dflt)                               /* the same value        \
                                                                           */
#define FORMAT_NEEDED(field, key) FORMAT_FIELD(0, field, key, NULL, NULL) /* no default */

/* A field that must have one of these values. */
#define FORMAT_ONLY(field, dflt, values) FORMAT_FIELD(0, field, NULL, values, dflt)

/* A key that every model of this architecture has with this value, and for which files have no
 * field. */
#define FORMAT_IMPLIED(key, value) FORMAT_FIELD(WEFT_FIELD_IMPLIED, key, key, NULL, value)

#endif
