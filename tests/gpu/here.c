/* here.c: is there a GPU that CUDA may use? Status 0 and its name, or 77 and what is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int absent(const char *what)
{
    printf("no GPU here: %s\n", what);
    return 77;
}

int main(void)
{
    int (*init)(unsigned), (*count)(int *), (*name)(char *, int, int);
    int n = 0;
    char text[100] = "";
    void *so = dlopen("libcuda.so.1", RTLD_NOW);
    if (!so)
        return absent("there is no NVIDIA driver");
    *(void **)&init = dlsym(so, "cuInit");
    *(void **)&count = dlsym(so, "cuDeviceGetCount");
    *(void **)&name = dlsym(so, "cuDeviceGetName");
    if (!init || !count || !name || init(0) != 0)
        return absent("the NVIDIA driver does not start");
    if (count(&n) != 0 || n == 0 || name(text, sizeof text, 0) != 0)
        return absent("the NVIDIA driver knows of none");
    printf("%d x %s\n", n, text);
    return 0;
}
