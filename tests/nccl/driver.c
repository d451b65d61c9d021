/* tests/nccl/driver.c: a double of libcuda.so.1 with two GPUs. */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuStreamGetCtx(void *stream, void **context);
int cuCtxSetCurrent(void *context);

int cuInit(unsigned flags)
{
    return (int)flags;
}

int cuDeviceGetCount(int *count)
{
    *count = 2;
    return 0;
}

int cuStreamGetCtx(void *stream, void **context)
{
    *context = stream;
    return stream ? 0 : 1;
}

int cuCtxSetCurrent(void *context)
{
    return context ? 0 : 1;
}
