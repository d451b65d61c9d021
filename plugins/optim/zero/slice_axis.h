/* slice_axis.h: the mesh axis over whose ranks a placement's slices lie. */
#ifndef ZERO_SLICE_AXIS_H
#define ZERO_SLICE_AXIS_H

#include <weft/optim.h>

/* The option `slice_axis`. */
extern const weft_option zero_slice_axis;

/* The axis that the option names or, with `auto`, the one with most ranks of those that share the
 * data; over the others every rank has the same slices. `axes` is what the placement's edit() got.
 * WEFT_USAGE with a sentence for any other name. [plan] */
weft_status zero_find_axis(const weft_host *host, const weft_conf *conf, const weft_view *view,
                           const char *const *axes, const char **out);

#endif
