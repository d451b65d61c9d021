/* bench/peers/mpi_allreduce.c: Open MPI's all-reduce, in place, in the columns of `weft bench
 * comm`.
 *
 *   mpicc -O2 -o mpi_allreduce mpi_allreduce.c
 *   mpirun -n 2 --mca pml ob1 --mca btl vader,self ./mpi_allreduce MIN MAX FACTOR          shared
 * memory mpirun -n 2 --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo ./mpi_allreduce
 * ...   tcp */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t min = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
    size_t max = argc > 2 ? strtoull(argv[2], NULL, 10) : 64u << 20;
    size_t factor = argc > 3 ? strtoull(argv[3], NULL, 10) : 8;
    if (!rank)
        printf("#%14s %14s %8s %12s %12s %10s %10s %8s\n", "size", "count", "type", "op", "time",
               "algbw", "busbw", "#wrong");
    for (size_t bytes = min; bytes <= max; bytes *= factor) {
        size_t count = bytes / 4;
        int runs = bytes < 65536 ? 2000 : bytes < (4u << 20) ? 200 : 20;
        float *x = calloc(count, 4);
        for (int i = 0; i < runs / 10 + 1; i++)
            MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime();
        for (int i = 0; i < runs; i++)
            MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        t = (MPI_Wtime() - t) / runs;
        double slowest;
        MPI_Reduce(&t, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        double bandwidth = (double)bytes / slowest * 1e-9;
        if (!rank)
            printf("%15zu %14zu %8s %12s %12.2f %10.3f %10.3f %8d\n", bytes, count, "fp32",
                   "all_reduce", slowest * 1e6, bandwidth, bandwidth * 2 * (ranks - 1) / ranks, 0);
        free(x);
    }
    MPI_Finalize();
    return 0;
}
