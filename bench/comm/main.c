/* bench/comm/main.c: `weft bench comm` alone. Ranks that it launches are given the whole command.
 */
#include <string.h>

#include "bench/bench_comm.h"

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "bench") == 0)
        return bench_comm_main(argc - 2, argv + 2);
    return bench_comm_main(argc, argv);
}
