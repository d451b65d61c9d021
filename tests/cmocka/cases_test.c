/* Cases run in the order in which they stand, each once, without a list. */
#include <test.h>

static int run;

TEST(third_by_name)
{
    assert_int_equal(run++, 0);
}

TEST(first_by_name)
{
    assert_int_equal(run++, 1);
}

TEST(second_by_name)
{
    assert_int_equal(run++, 2);
}

static int all_have_run(void **state)
{
    (void)state;
    return run == 3 ? 0 : -1;
}

int main(void)
{
    return test_run(NULL, all_have_run) || run != 3;
}
