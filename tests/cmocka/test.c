/* cmocka/test.c: see test.h. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define CASES_MAX 256

static struct {
    const char *file;
    int line;
    struct CMUnitTest unit;
} cases[CASES_MAX];
static size_t ncases;

void test_add(const char *name, CMUnitTestFunction run, const char *file, int line)
{
    if (ncases == CASES_MAX)
        abort();
    cases[ncases].file = file;
    cases[ncases].line = line;
    cases[ncases++].unit = (struct CMUnitTest){.name = name, .test_func = run};
}

/* Compilers may order constructors as they like. */
static int in_order(const void *one, const void *two)
{
    const typeof(cases[0]) *a = one, *b = two;
    const int files = strcmp(a->file, b->file);
    return files ? files : (a->line > b->line) - (a->line < b->line);
}

int test_run(CMFixtureFunction before, CMFixtureFunction after)
{
    struct CMUnitTest units[CASES_MAX];
    qsort(cases, ncases, sizeof *cases, in_order);
    for (size_t i = 0; i < ncases; i++)
        units[i] = cases[i].unit;
    return ncases ? _cmocka_run_group_tests("cases", units, ncases, before, after) : 1;
}
