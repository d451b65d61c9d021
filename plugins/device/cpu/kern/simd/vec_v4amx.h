/* kern/simd/vec_v4amx.h: AVX-512 with bf16 instructions, and the tiles of AMX for products of bf16
 * (tiles.h). */
#include "vec_v4bf16.h"

#define CPU_TILES
