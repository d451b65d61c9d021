/* slice_axis.c: see slice_axis.h. */
#include "slice_axis.h"

#include <stdio.h>
#include <string.h>

const weft_option zero_slice_axis = {
    .struct_size = sizeof zero_slice_axis,
    .type = WEFT_OPT_STRING,
    .key = "slice_axis",
    .dflt = "auto",
    .help =
        "mesh axis to shard over, one whose ranks share the data; auto: the one with most ranks"};

weft_status zero_find_axis(const weft_host *host, const weft_conf *conf,
                           const weft_placement_args *args, const char **out)
{
    const weft_view *view = args->view;
    const char *const *axes = args->mesh_axes;
    const weft_status known = weft_check_args(host, args, sizeof *args, 0);
    if (known != WEFT_OK)
        return known;
    const char *name = conf->text(conf->ctx, "slice_axis");
    char all[256] = "", text[512];
    *out = NULL;
    for (uint32_t i = 0; axes[i]; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", axes[i]);
        if (!strcmp(name, axes[i]) ||
            (!strcmp(name, "auto") &&
             (!*out || view->mesh(view->ctx, axes[i]) > view->mesh(view->ctx, *out))))
            *out = axes[i];
    }
    if (*out)
        return WEFT_OK;
    snprintf(text, sizeof text,
             "optim.slice_axis = %s: ranks along that mesh axis do not share the data of this job; "
             "name one along which they do (%s), or set auto",
             name, all);
    return host->fail(host->ctx, WEFT_USAGE, text);
}
