/* base/version.c: see version.h. */
#include "base/version.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"

weft_status version_check(const char *format, uint64_t found, uint64_t known)
{
    if (found && found <= known)
        return WEFT_OK;
    if (!found)
        return err_fail(WEFT_DATA,
                        "%s has no valid version number; this program reads versions 1 to "
                        "%" PRIu64,
                        format, known);
    return err_fail(WEFT_UNSUPPORTED,
                    "%s has version %" PRIu64 ", and this program reads versions up to %" PRIu64
                    ": use a weft as new as the one that wrote it",
                    format, found, known);
}

uint64_t version_after(const char *text, uint64_t bytes, const char *prefix)
{
    const uint64_t skip = strlen(prefix);
    if (bytes < skip || memcmp(text, prefix, skip))
        return 1;
    uint64_t v = 0, n = 0;
    for (uint64_t at = skip; at < bytes && text[at] >= '0' && text[at] <= '9' && n < 10; at++, n++)
        v = 10 * v + (uint64_t)(text[at] - '0');
    return n < 10 ? v : 0;
}
