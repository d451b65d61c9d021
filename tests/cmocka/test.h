/* cmocka/test.h: cases of cmocka that need no list.
 *
 *     TEST(what_is_asked)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * A program that has no main() gets one that runs all its cases, in the order in which they stand.
 */
#ifndef CMOCKA_TEST_H
#define CMOCKA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Run all cases, with what stands before the first and after the last (NULL: nothing); what a
 * main() returns. */
int test_run(CMFixtureFunction before, CMFixtureFunction after);

/* Before main(): add a case. */
void test_add(const char *name, CMUnitTestFunction run, const char *file, int line);

#define TEST(name)                                                                                 \
    static void name(void **test_state);                                                           \
    __attribute__((constructor)) static void test_add_##name(void)                                 \
    {                                                                                              \
        test_add(#name, name, __FILE__, __LINE__);                                                 \
    }                                                                                              \
    static void name(void **test_state __attribute__((unused)))

#endif
