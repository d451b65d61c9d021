/* formats/beside.c: the small files of a folder of Hugging Face that come along. See internal.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/file.h"
#include "data/folder.h"
#include "formats/internal.h"

#define LIMIT ((uint64_t)64 << 20) /* bytes of such a file */

static const char *const names[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
};

static weft_status copy(int from, int to, const char *name, bool follow)
{
    struct stat info;
    const int fd = data_file_open_regular(from, name, follow, &info);
    if (fd < 0)
        return formats_cannot_read(name, follow);
    const uint64_t bytes = (uint64_t)info.st_size;
    char *text = NULL;
    weft_status st = bytes > LIMIT ? err_fail(WEFT_DATA, "%s is over %llu MiB long", name,
                                              (unsigned long long)(LIMIT >> 20))
                                   : WEFT_OK;
    if (st == WEFT_OK && data_file_read(fd, text = mem_alloc(bytes + 1), bytes, 0))
        st = err_fail(WEFT_IO, "%s cannot be read to its end", name);
    close(fd);
    if (st == WEFT_OK)
        st = data_folder_file(to, name, text, bytes);
    free(text);
    return st;
}

weft_status formats_beside_copy(const char *from, int to, bool with_config, bool follow)
{
    const int folder = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status st = WEFT_OK;
    if (folder < 0)
        return err_fail_errno(data_file_status(errno), "cannot open the folder %s", from);
    for (size_t i = with_config ? 0 : 1; st == WEFT_OK && i < sizeof names / sizeof *names; i++) {
        if (faccessat(folder, names[i], F_OK, 0) == 0)
            st = copy(folder, to, names[i], follow);
    }
    close(folder);
    if (st != WEFT_OK)
        err_context("%s", from);
    return st;
}
