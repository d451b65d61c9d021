/* kern/prim.cuh: what the kernels ask of a GPU. The tests have another file of these names, with
 * which the same kernels run on a CPU. */
#ifndef GPU_PRIM_CUH
#define GPU_PRIM_CUH

#define FN static __device__ __forceinline__

/* A function that is not copied to where it is called. */
#define FN_APART static __device__ __noinline__

/* A kernel that C finds by its name. `threads` is the most that a block has. */
#define ENTRY(name, threads, type)                                                                 \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ type j)

#define SHARED(type, name, count) __shared__ type name[count]

FN int thread()
{
    return (int)threadIdx.x;
}

FN int threads()
{
    return (int)blockDim.x;
}

FN int64_t block()
{
    return (int64_t)blockIdx.x;
}

FN int64_t block_y()
{
    return (int64_t)blockIdx.y;
}

FN int64_t blocks()
{
    return (int64_t)gridDim.x;
}

/* As much as the launch asked for, at a multiple of 16. */
FN char *shared_bytes()
{
    extern __shared__ __align__(16) char shared_memory[];
    return shared_memory;
}

FN void sync_block()
{
    __syncthreads();
}

FN void sync_warp()
{
    __syncwarp();
}

FN float shuffle_xor(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

/* 16 bytes at a multiple of 16. */
struct quad {
    uint32_t w[4];
};

struct pair {
    uint32_t w[2];
};

FN pair load_pair(const void *p)
{
    const uint2 v = *(const uint2 *)p;
    return {{v.x, v.y}};
}

FN quad load_quad(const void *p)
{
    const uint4 v = *(const uint4 *)p;
    return {{v.x, v.y, v.z, v.w}};
}

/* To global memory. Written out, since nvcc (13.0) makes four stores of one where it has unrolled
 * around it, each of which touches as many sectors as the whole. */
FN void store_quad(void *p, quad q)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                 "r"(q.w[0]), "r"(q.w[1]), "r"(q.w[2]), "r"(q.w[3])
                 : "memory");
}

FN void store_pair(void *p, pair q)
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(q.w[0]),
                 "r"(q.w[1])
                 : "memory");
}

FN void store_shared_quad(void *p, quad q)
{
    *(uint4 *)p = make_uint4(q.w[0], q.w[1], q.w[2], q.w[3]);
}

FN float as_float(uint32_t x)
{
    return __uint_as_float(x);
}

FN uint32_t as_bits(float x)
{
    return __float_as_uint(x);
}

/* The second operand of the instruction is the lower half. */
FN uint32_t bf16_pair(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

FN uint32_t f16_pair(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

FN float from_f16(uint16_t bits)
{
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
}

/* 2^x to two units in the last place; 0 where that is below the normal numbers. */
FN float fast_exp2(float x)
{
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

FN float fast_divide(float x, float y)
{
    return __fdividef(x, y);
}

#endif
