/* crash.c: a library that ends the process which asks for its version. */
#include <stdlib.h>

int ncclGetVersion(int *out);

__attribute__((visibility("default"))) int ncclGetVersion(int *out)
{
    (void)out;
    abort();
}
