/* no_images.c: in the place of images.c, in a build that compiles no kernels. */
#include "image.h"

#define NONE ""
const char *const gpu_images[GPU_IMAGES] = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE};
