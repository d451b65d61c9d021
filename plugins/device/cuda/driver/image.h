/* image.h: the kernels as nvcc compiled them, one image a file of kern/. */
#ifndef GPU_IMAGE_H
#define GPU_IMAGE_H

#include "gpu.h"

extern const char *const gpu_images[GPU_IMAGES];

#endif
