/* formats/output.h: an output folder that is there complete or not at all.
 *
 * Files are written into a folder with a temporary name beside the final one; a commit renames it.
 * An existing folder or file is never replaced. A killed process leaves a folder ".NAME.PID.tmp",
 * which nothing reads. */
#ifndef FORMATS_OUTPUT_H
#define FORMATS_OUTPUT_H

#include <limits.h>
#include <weft/base.h>

typedef struct formats_output {
    int parent, fd;          /* open descriptors; fd: the temporary folder */
    char temp[NAME_MAX + 1]; /* its name under `parent` */
    char name[NAME_MAX + 1]; /* the final name */
    char path[PATH_MAX];     /* of the temporary folder */
} formats_output;

/* Make the temporary folder for `path`. WEFT_USAGE: `path` exists, or its parent does not. [setup]
 */
weft_status formats_output_begin(const char *path, formats_output *f);

/* Sync it and give it its final name; either way `f` is closed, and on failure removed. [setup] */
weft_status formats_output_commit(formats_output *f);

/* Remove it with the files in it. [setup] */
void formats_output_abandon(formats_output *f);

#endif
