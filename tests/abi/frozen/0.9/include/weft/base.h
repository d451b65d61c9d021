#ifndef WEFT_BASE_H
#define WEFT_BASE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define WEFT_STATIC_ASSERT(cond, text) static_assert(cond, text)
#define WEFT_EXTERN_C_BEGIN extern "C" {
#define WEFT_EXTERN_C_END }
#else
#define WEFT_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#define WEFT_EXTERN_C_BEGIN
#define WEFT_EXTERN_C_END
#endif
#if (defined(__cplusplus) && __cplusplus >= 201703L) ||                                            \
    (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
#define WEFT_CHECKED [[nodiscard]]
#elif defined(__clang__)
#define WEFT_CHECKED __attribute__((warn_unused_result))
#else
#define WEFT_CHECKED
#endif
WEFT_EXTERN_C_BEGIN
#ifdef __cplusplus
#define WEFT_STATUS_BASE : int32_t
#else
#define WEFT_STATUS_BASE
#endif
typedef enum WEFT_CHECKED weft_status WEFT_STATUS_BASE{
    WEFT_OK = 0,        WEFT_BUSY = 1,    WEFT_UNSUPPORTED = 2, WEFT_USAGE = 3,
    WEFT_NO_MEMORY = 4, WEFT_IO = 5,      WEFT_PEER = 6,        WEFT_DATA = 7,
    WEFT_ABSENT = 8,    WEFT_INTERNAL = 9} weft_status;
#define WEFT_F32 1u
#define WEFT_BF16 2u
#define WEFT_F16 3u
#define WEFT_I32 4u
#define WEFT_I64 5u
#define WEFT_F64 6u
#define WEFT_U8 7u
static inline uint64_t weft_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case WEFT_F32:
    case WEFT_I32: return 4;
    case WEFT_BF16:
    case WEFT_F16: return 2;
    case WEFT_I64:
    case WEFT_F64: return 8;
    case WEFT_U8: return 1;
    default: return 0;
    }
}
#define WEFT_MAX_AXES 8
#define WEFT_MAX_OPERANDS 32
#define WEFT_MAX_MESH 8
#define WEFT_MAX_NAME 64
#define WEFT_END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WEFT_FREEZE(type, last, bytes)                                                             \
    WEFT_STATIC_ASSERT(sizeof(type) == (bytes) && WEFT_END_OF(type, last) == (bytes),              \
                       "the layout of " #type " is law: append, and change the ABI minor with it")
#define WEFT_HAS(p, member)                                                                        \
    ((size_t)((const char *)(&(p)->member + 1) - (const char *)(p)) <= (p)->struct_size &&         \
     (p)->member)
static inline int32_t weft_tail_is_zero(const void *sized, size_t known)
{
    const unsigned char *bytes = (const unsigned char *)sized;
    const uint32_t size = *(const uint32_t *)sized;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return 0;
    return 1;
}
#define weft_knows(args) weft_tail_is_zero((args), sizeof *(args))
static inline void weft_take(void *to, size_t size, const void *from)
{
    unsigned char *out = (unsigned char *)to;
    const unsigned char *in = (const unsigned char *)from;
    const uint32_t have = *(const uint32_t *)from;
    for (size_t i = 0; i < size; i++)
        out[i] = i < have ? in[i] : 0;
    *(uint32_t *)to = have < size ? have : (uint32_t)size;
}
static inline void weft_give(void *out, const void *value)
{
    unsigned char *to = (unsigned char *)out;
    const unsigned char *from = (const unsigned char *)value;
    const uint32_t room = *(const uint32_t *)out, have = *(const uint32_t *)value;
    const uint32_t n = room < have ? room : have;
    for (uint32_t i = 4; i < n; i++)
        to[i] = from[i];
    *(uint32_t *)out = n;
}
WEFT_STATIC_ASSERT(sizeof(weft_status) == 4, "a status is four bytes on both sides");
WEFT_STATIC_ASSERT(sizeof(void *) == 8, "weft is for 64-bit machines");
WEFT_EXTERN_C_END
#endif
