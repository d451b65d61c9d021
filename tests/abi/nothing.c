/* tests/abi/nothing.c: a shared object that is no plugin, with one symbol too many. */
__attribute__((visibility("default"))) int a_second_symbol(void);

int a_second_symbol(void)
{
    return 1;
}
