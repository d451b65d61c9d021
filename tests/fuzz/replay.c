/* tests/fuzz/replay.c: runs a fuzz target over files and folders of files, each as it is and cut to
 * every shorter length (the first 512), so that a corpus is a test where no fuzzer is. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A copy of exactly `bytes` bytes, so that a sanitizer sees one byte too many. */
static void run_exactly(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        exit(1);
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    if (!f || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    size_t bytes = fread(data, 1, 1 << 20, f);
    fclose(f);
    run_exactly(data, bytes);
    for (size_t n = 0; n < bytes && n < 512; n++)
        run_exactly(data, n);
    free(data);
    return 0;
}

static int replay_folder(const char *path)
{
    DIR *dir = opendir(path);
    int wrong = 0, files = 0;
    if (!dir)
        return replay_file(path);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char file[4096];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (stat(file, &st) || !S_ISREG(st.st_mode))
            continue;
        wrong |= replay_file(file);
        files++;
    }
    closedir(dir);
    printf("%d files of %s\n", files, path);
    return wrong || !files;
}

int main(int argc, char **argv)
{
    int wrong = argc < 2;
    for (int i = 1; i < argc; i++)
        wrong |= replay_folder(argv[i]);
    return wrong;
}
