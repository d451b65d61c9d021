/* cmocka/main.c: of programs that have no main() of their own. */
#include "test.h"

int main(void)
{
    return test_run(NULL, NULL);
}
