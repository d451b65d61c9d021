/* slice_axis.h: the mesh axis over which a placement shards. */
#ifndef ZERO_SLICE_AXIS_H
#define ZERO_SLICE_AXIS_H

#include <weft/optim.h>

/* The option `slice_axis`. */
extern const weft_option zero_slice_axis;

/* The axis that the option names or, with `auto`, the data-parallel axis with most ranks; the
 * shards are replicated over the other data-parallel axes. `args` is what the placement's edit()
 * got; WEFT_UNSUPPORTED where it asks for what is not known. WEFT_USAGE with an error message for
 * any other name. [plan] */
weft_status zero_find_axis(const weft_host *host, const weft_conf *conf,
                           const weft_placement_args *args, const char **out);

#endif
