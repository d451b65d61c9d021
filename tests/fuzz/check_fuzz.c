/* Any bytes as a shared object of `weft plugins check`: refused with a sentence, or read without
 * leaving them. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check/file/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const int64_t tags[] = {DT_NEEDED, DT_RUNPATH, DT_RPATH, DT_SONAME};
    uint8_t *own = malloc(bytes ? bytes : 1); /* so that a sanitizer sees a byte behind it */
    check_elf e;
    bool defined, global, weak;
    uint32_t flags;
    uint64_t value, n = 0;
    must(own != NULL);
    memcpy(own, data, bytes);
    const bool fine = check_elf_read(&e, own, bytes);
    must(fine == !e.why);
    for (const char *name; fine && (name = check_elf_symbol(&e, n, &defined, &global, &weak)); n++)
        must(strlen(name) < bytes);
    must(n <= bytes / sizeof(Elf64_Sym));
    for (size_t t = 0; fine && t < sizeof tags / sizeof *tags; t++) {
        const char *text;
        for (uint32_t k = 0; (text = check_elf_dynamic_text(&e, tags[t], k)); k++)
            must(strlen(text) < bytes);
    }
    if (fine && check_elf_dynamic(&e, DT_FLAGS, &value))
        must(check_elf_segment(&e, PT_DYNAMIC, &flags, &value));
    free(own);
    return 0;
}
