/* tests/abi/layout.c: prints the size of every public struct, where each member lies, and every
 * public number. The lines come from the headers by layout.awk. */
#include <stdio.h>
#include <weft/coll.h>
#include <weft/data.h>
#include <weft/device.h>
#include <weft/host.h>
#include <weft/link.h>
#include <weft/model.h>
#include <weft/op.h>
#include <weft/optim.h>
#include <weft/plugin.h>
#include <weft/sink.h>
#include <weft/strategy.h>

#define TYPE(type) printf("%s: %zu\n", #type, sizeof(type))
#define MEMBER(type, name)                                                                         \
    printf(#type "." #name ": at %zu, %zu\n", offsetof(type, name), sizeof(((type *)0)->name))
#define VALUE(name) printf("%s = %lld\n", #name, (long long)(name))

int main(void)
{
#include "layout.inc"
    return 0;
}
