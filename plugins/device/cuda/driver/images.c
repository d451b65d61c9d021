/* images.c: the files that nvcc made, as bytes of the plugin. GPU_IMAGE_DIR is where they lie. */
#include "image.h"

#define IMAGE(name)                                                                                \
    __asm__(".section .rodata\n"                                                                   \
            ".balign 64\n"                                                                         \
            "gpu_image_" #name ":\n"                                                               \
            ".incbin \"" GPU_IMAGE_DIR "/" #name ".fatbin\"\n"                                     \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const char gpu_image_##name[] __attribute__((visibility("hidden")));

IMAGE(attention)
IMAGE(colsum)
IMAGE(embed)
IMAGE(ew)
IMAGE(flat)
IMAGE(known)
IMAGE(norm)
IMAGE(product)
IMAGE(rows)
IMAGE(xent)

const char *const gpu_images[GPU_IMAGES] = {
    gpu_image_attention, gpu_image_colsum, gpu_image_embed,   gpu_image_ew,   gpu_image_flat,
    gpu_image_known,     gpu_image_norm,   gpu_image_product, gpu_image_rows, gpu_image_xent,
};
