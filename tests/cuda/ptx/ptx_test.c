/* ptx_test.c: is the interpreter of PTX right? Each case is a kernel written by hand: each of its
 * threads stores a result, or it has to be refused with a sentence. */
#include "double/double.h"
#include "double/kernels.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <test.h>
#include <unistd.h>

enum { THREADS = 64, BLOCKS = 3, WORDS = 4096 };

static uint32_t *memory; /* what kernels may touch; the first are their threads' results */

bool double_is_ours(const void *p)
{
    return (const uint32_t *)p >= memory && (const uint32_t *)p < memory + WORDS;
}

/* %tid is a thread's number, %out the address of its result, %base that of all. */
static const char before[] =
    ".version 9.0\n.target sm_90\n.extern .shared .align 16 .b8 dynamic[];\n"
    ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
    ".func (.param .b32 result) square(.param .b32 a) {\n"
    ".reg .b32 %r<3>; ld.param.u32 %r1, [a]; mul.lo.s32 %r2, %r1, %r1;\n"
    "st.param.b32 [result+0], %r2; ret; }\n"
    ".visible .entry k(.param .align 8 .b8 k_param_0[16]) .maxntid 128, 1, 1\n{\n"
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>;\n"
    ".reg .f32 %f<16>; .reg .b64 %base; .reg .b64 %out; .reg .b32 %tid;\n"
    ".shared .align 4 .b8 own[512];\n"
    "mov.u32 %tid, %tid.x; ld.param.u64 %base, [k_param_0];\n"
    "mul.wide.u32 %d1, %tid, 4; add.s64 %out, %base, %d1;\n";

static void run(const char *path, int blocks)
{
    const struct rlimit no_core = {0, 0};
    const uint64_t job[2] = {(uint64_t)(uintptr_t)memory, 7};
    setrlimit(RLIMIT_CORE, &no_core);
    setenv("PTX_FILES", path, 1);
    signal(SIGABRT, SIG_DFL);
    const struct kernel *k = kernel_find("k");
    kernel_launch(k, job, blocks, 1, THREADS, 1024);
}

/* In a process of its own, whose last words go to `said`: did it end well? */
static bool ends_well(const char *body, int blocks, char said[512])
{
    char path[] = "/tmp/weft-ptx-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w"), *words = tmpfile();
    int status;
    assert_true(f != NULL && words != NULL);
    fprintf(f, "%s%s\nret;\n}\n", before, body);
    fclose(f);
    memset(memory, 0, WORDS * sizeof *memory);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(words), STDERR_FILENO);
        run(path, blocks);
        _exit(0);
    }
    waitpid(child, &status, 0);
    unlink(path);
    rewind(words);
    said[fread(said, 1, 511, words)] = '\0';
    fclose(words);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void gives(const char *body, uint32_t expected(uint32_t tid))
{
    char said[512];
    if (!ends_well(body, 1, said))
        fail_msg("%s\n%s", said, body);
    for (uint32_t t = 0; t < THREADS; t++)
        if (memory[t] != expected(t))
            fail_msg("thread %u stored %#x, should be %#x:\n%s", t, memory[t], expected(t), body);
}

static void is_refused(const char *body, int blocks, const char *sentence)
{
    char said[512];
    if (ends_well(body, blocks, said))
        fail_msg("nothing was said of\n%s", body);
    if (!strstr(said, sentence))
        fail_msg("\"%s\" says nothing of \"%s\"", said, sentence);
}

/* --- where threads go --- */

static uint32_t sum_below(uint32_t t)
{
    return t * (t + 1) / 2;
}

static uint32_t pair_sum(uint32_t t)
{
    return sum_below(t) + sum_below(t ^ 1);
}

static uint32_t squares_of_odd(uint32_t t)
{
    return t % 2 ? t * t : 1000 + t;
}

static uint32_t mirrored(uint32_t t)
{
    return THREADS - 1 - t;
}

static uint32_t local_sum(uint32_t t)
{
    return 3 * t + 7 + 0x04030201;
}

/* %r1 becomes the sum of the numbers up to that of the thread: each turns as often as that. */
#define LOOP                                                                                       \
    "mov.u32 %r1, 0; mov.u32 %r2, 0;\n"                                                            \
    "again: add.s32 %r1, %r1, %r2; add.s32 %r2, %r2, 1;\n"                                         \
    "setp.le.u32 %p1, %r2, %tid; @%p1 bra again;\n"
#define SHUFFLE "shfl.sync.bfly.b32 %r3|%p2, %r1, 1, 31, -1;\n"
#define STORE(reg) "st.global.u32 [%out], " reg ";\n"

TEST(test_ways)
{
    gives(LOOP STORE("%r1"), sum_below);
    gives(LOOP SHUFFLE "add.s32 %r3, %r3, %r1;\n" STORE("%r3"), pair_sum);
    gives("and.b32 %r1, %tid, 1; setp.eq.s32 %p1, %r1, 1; add.s32 %r5, %tid, 1000;\n"
          "@!%p1 bra even;\n"
          "{ .param .b32 p0; st.param.b32 [p0+0], %tid; .param .b32 q;\n"
          "call.uni (q), square, (p0); ld.param.b32 %r5, [q+0]; }\n"
          "even: st.global.u32 [%out], %r5;",
          squares_of_odd);
    gives("and.b32 %r1, %tid, 1; setp.eq.s32 %p1, %r1, 0; mul.lo.s32 %r3, %tid, %tid;\n"
          "st.global.u32 [%out], %r3; add.s32 %r4, %tid, 1000;\n"
          "@%p1 st.global.u32 [%out], %r4;",
          squares_of_odd);
}

TEST(test_memories)
{
    gives("mov.u32 %r1, own; shl.b32 %r2, %tid, 2; add.s32 %r3, %r1, %r2;\n"
          "st.shared.u32 [%r3], %tid; bar.sync 0; sub.s32 %r4, 252, %r2; add.s32 %r5, %r1, %r4;\n"
          "ld.shared.u32 %r6, [%r5];" STORE("%r6"),
          mirrored);
    gives("mov.u32 %r1, dynamic; shl.b32 %r2, %tid, 2; add.s32 %r3, %r1, %r2;\n"
          "st.shared.u32 [%r3+768], %tid; bar.sync 0; sub.s32 %r4, 252, %r2;\n"
          "add.s32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5+768];" STORE("%r6"),
          mirrored);
    gives(".local .align 8 .b8 depot[16]; .reg .b64 %SPL; mov.u64 %SPL, depot;\n"
          "mul.lo.s32 %r1, %tid, 3; st.local.u32 [%SPL+8], %r1; ld.local.u32 %r2, [%SPL+8];\n"
          "ld.param.u32 %r3, [k_param_0+8]; add.s32 %r4, %r2, %r3; mov.u64 %d5, table;\n"
          "ld.global.nc.u32 %r5, [%d5]; add.s32 %r6, %r4, %r5;" STORE("%r6"),
          local_sum);
}

/* --- what is undefined --- */

#define NEIGHBOUR                                                                                  \
    "mov.u32 %r1, own; shl.b32 %r2, %tid, 2; add.s32 %r3, %r1, %r2; xor.b32 %r4, %r3, 4;\n"

TEST(test_races)
{
    char said[512];
    is_refused(NEIGHBOUR "st.shared.u32 [%r3], %tid; ld.shared.u32 %r5, [%r4];", 1,
               "has written this without a barrier between");
    is_refused(NEIGHBOUR "ld.shared.u32 %r5, [%r4]; st.shared.u32 [%r3], %tid;", 1,
               "has read this without a barrier between");
    is_refused(NEIGHBOUR "st.shared.u32 [%r1], %tid;", 1, "has written this");
    assert_true(ends_well(NEIGHBOUR "st.shared.u32 [%r3], %tid; bar.warp.sync -1;\n"
                                    "ld.shared.u32 %r5, [%r4];",
                          1, said));
    is_refused("mov.u32 %r1, own; shl.b32 %r2, %tid, 2; xor.b32 %r2, %r2, 128;\n"
               "add.s32 %r3, %r1, %r2; shl.b32 %r4, %tid, 2; add.s32 %r4, %r1, %r4;\n"
               "st.shared.u32 [%r3], %tid; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];",
               1, "without a barrier between");
    is_refused("mov.u32 %r1, %ctaid.x;" STORE("%r1"), BLOCKS, "of block");
    is_refused(STORE("%tid") "ld.global.u32 %r1, [%base+4];", 1, "without a barrier between");
    assert_true(ends_well(STORE("5"), BLOCKS, said)); /* the same, whoever is last */
    is_refused("mul.lo.s32 %r1, %tid, 5; st.global.u32 [%base], %r1;", 1, "has written this");
}

TEST(test_undefined)
{
    is_refused("ld.global.v2.u32 {%r1, %r2}, [%base+4];", 1, "that is not aligned");
    is_refused("ld.global.u32 %r1, [%base+16384];", 1, "which is not memory of its own");
    is_refused("st.shared.u32 [own+1536], %tid;", 1, "which is not memory of its own");
    is_refused("ld.shared.u32 %r1, [own+-4];", 1, "which is not memory of its own");
    is_refused("setp.lt.u32 %p1|%p2, %tid, 40;", 1, "with two results");
    is_refused("cvt.rz.f32.u32 %f1, %tid;", 1, "a rounding");
    is_refused("ld.param.u32 %r1, [k_param_0+16];", 1, "which is not memory of its own");
    is_refused("setp.lt.u32 %p1, %tid, 40; @%p1 bar.sync 0;", 1, "only some threads");
    is_refused("setp.eq.u32 %p1, %tid, 3; @%p1 bra other; bar.sync 0; ret; other: bar.sync 0;", 1,
               "different barriers");
    is_refused("mov.u32 %r1, 0; setp.eq.u32 %p1, %tid, 3; @%p1 ret;\n" SHUFFLE, 1,
               "for a thread that has ended");
    is_refused("mov.u32 %r1, 0; div.u32 %r2, %tid, %r1;", 1, "a division by zero");
    is_refused("wgmma.fence.sync.aligned;", 1, "does not know");
    is_refused("add.s32 %r1, %nothing, 2;", 1, "is not known");
}

/* --- arithmetic: what one thread stores, as words of both operands' bits --- */

struct sum {
    const char *body; /* from %r1 and %r2, and as floats %f1 and %f2, to %r3 */
    uint32_t a, b, expected;
};

TEST(test_arithmetic)
{
    static const struct sum sums[] = {
        {"sub.s32 %r3, %r1, %r2;", 3, 5, 0xfffffffe},
        {"mul.wide.s32 %d3, %r1, %r2; shr.u64 %d4, %d3, 32; cvt.u32.u64 %r3, %d4;", 0xffffffff, 5,
         0xffffffff},
        {"mul.wide.u32 %d3, %r1, %r2; shr.u64 %d4, %d3, 32; cvt.u32.u64 %r3, %d4;", 0xffffffff, 5,
         4},
        {"mad.lo.s32 %r3, %r1, %r2, %r2;", 0x10001, 0x10000, 0x20000},
        {"div.s32 %r3, %r1, %r2;", 0xfffffff9, 2, 0xfffffffd},
        {"rem.s32 %r3, %r1, %r2;", 0xfffffff9, 2, 0xffffffff},
        {"div.u32 %r3, %r1, %r2;", 0xfffffff9, 2, 0x7ffffffc},
        {"shr.s32 %r3, %r1, %r2;", 0x80000000, 40, 0xffffffff},
        {"shr.u32 %r3, %r1, %r2;", 0x80000000, 32, 0},
        {"shl.b32 %r3, %r1, %r2;", 1, 32, 0},
        {"min.s32 %r3, %r1, %r2;", 0xffffffff, 1, 0xffffffff},
        {"min.u32 %r3, %r1, %r2;", 0xffffffff, 1, 1},
        {"not.b32 %r3, %r1;", 0x0f0f0f0f, 0, 0xf0f0f0f0},
        {"prmt.b32 %r3, %r1, %r2, 4180;", 0x44332211, 0x88776655, 0x22116655},
        {"prmt.b32 %r3, %r1, %r2, 0x00b7;", 0x00332211, 0x88776655, 0x11110088},
        {"cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, %r2; bfi.b64 %d3, %d1, %d2, 8, 16;\n"
         "cvt.u32.u64 %r3, %d3;",
         0xabcdef, 0x11223344, 0x11cdef44},
        {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r3, 1, 0, %p1;", 0xffffffff, 1, 1},
        {"setp.lt.u32 %p1, %r1, %r2; selp.b32 %r3, 1, 0, %p1;", 0xffffffff, 1, 0},
        {"setp.lt.f32 %p1, %f1, %f2; selp.b32 %r3, 1, 0, %p1;", 0x7fc00000, 0x3f800000, 0},
        {"setp.ltu.f32 %p1, %f1, %f2; selp.b32 %r3, 1, 0, %p1;", 0x7fc00000, 0x3f800000, 1},
        {"setp.nan.f32 %p1, %f1, %f2; not.pred %p2, %p1; selp.b32 %r3, 1, 0, %p2;", 0x7fc00000, 0,
         0},
        {"setp.ne.f32 %p1, %f1, %f2; selp.b32 %r3, 1, 0, %p1;", 0x7fc00000, 0x7fc00000, 0},
        {"cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; mov.b32 %r3, {%h1, %h2};", 0x12345678,
         0x9abcdef0, 0xdef05678},
        {"cvt.s64.s32 %d1, %r1; shr.s64 %d2, %d1, 40; cvt.u32.u64 %r3, %d2;", 0x80000000, 0,
         0xffffffff},
        /* 1 + 2^-24 lies between two floats, and rounds to the even one, or down */
        {"add.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x3f800000, 0x33800000, 0x3f800000},
        {"add.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x3f800001, 0x33800000, 0x3f800002},
        {"fma.rm.f32 %f3, %f1, 0f3F800000, %f2; mov.b32 %r3, %f3;", 0x3f800001, 0x33800000,
         0x3f800001},
        /* (1 + 2^-23)^2 - (1 + 2^-22) is 2^-46 if it is rounded once */
        {"fma.rn.f32 %f3, %f1, %f1, %f2; mov.b32 %r3, %f3;", 0x3f800001, 0xbf800002, 0x28800000},
        {"max.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x7fc00000, 0xbf800000, 0xbf800000},
        {"cvt.sat.f32.f32 %f3, %f1; mov.b32 %r3, %f3;", 0x7fc00000, 0, 0},
        {"cvt.rni.s32.f32 %r3, %f1;", 0x40200000, 0, 2}, /* 2.5 */
        {"cvt.rzi.s32.f32 %r3, %f1;", 0xc0200000, 0, 0xfffffffe},
        {"cvt.rzi.s32.f32 %r3, %f1;", 0x7f800000, 0, 0x7fffffff},
        {"cvt.rn.f32.s32 %f3, %r1; mov.b32 %r3, %f3;", 0xffffffff, 0, 0xbf800000},
        {"cvt.rn.bf16x2.f32 %r3, %f1, %f2;", 0x3f818000, 0x3f808000, 0x3f823f80},
        {"cvt.rn.f16x2.f32 %r3, %f1, %f2;", 0x3f800000, 0x477fe000, 0x3c007bff},
        {"cvt.u16.u32 %h1, %r1; cvt.f32.f16 %f3, %h1; mov.b32 %r3, %f3;", 0x0001, 0, 0x33800000},
        {"ex2.approx.ftz.f32 %f3, %f1; mov.b32 %r3, %f3;", 0x00000001, 0, 0x3f800000},
        {"mul.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x00000002, 0x3f000000, 1},
        {"mul.ftz.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x00000002, 0x3f000000, 0},
        {"div.approx.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", 0x3f800000, 0x7f000001, 0},
    };
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
        char body[512], said[512];
        snprintf(body, sizeof body,
                 "mov.u32 %%r1, %u; mov.u32 %%r2, %u; mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2;\n"
                 "%s\n%s",
                 sums[k].a, sums[k].b, sums[k].body, STORE("%r3"));
        if (!ends_well(body, 1, said))
            fail_msg("%s\n%s", said, body);
        if (memory[0] != sums[k].expected)
            fail_msg("%#x, should be %#x:\n%s", memory[0], sums[k].expected, body);
    }
}

int main(void)
{
    memory = mmap(NULL, WORDS * sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                  -1, 0);
    return memory == MAP_FAILED ? 1 : test_run(NULL, NULL);
}
