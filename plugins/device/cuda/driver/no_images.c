/* no_images.c: replaces images.c in a build that compiles no kernels. */
#include "image.h"

const char *const gpu_images[GPU_IMAGES] = {[0 ... GPU_IMAGES - 1] = ""};
