"""Gloo's all-reduce through PyTorch, in the columns of `weft bench comm`.

One process a rank, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME set:
  gloo_allreduce.py MIN MAX FACTOR"""
import sys
import time

import torch
import torch.distributed as dist


def main():
    low, high, factor = (int(x) for x in sys.argv[1:4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    if dist.get_rank() == 0:
        print("#          size          count     type           op         time      algbw      "
              "busbw   #wrong")
    size = low
    while size <= high:
        x = torch.zeros(max(size // 4, 1))
        runs = 500 if size < 65536 else 100 if size < 4 << 20 else 10
        for _ in range(runs // 10 + 1):
            dist.all_reduce(x)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(runs):
            dist.all_reduce(x)
        each = (time.perf_counter() - start) / runs
        if dist.get_rank() == 0:
            gb = size / each * 1e-9
            print(f"{size:15d} {size // 4:14d}     fp32   all_reduce {each * 1e6:12.2f} {gb:10.3f} "
                  f"{gb * 2 * (ranks - 1) / ranks:10.3f}        0", flush=True)
        size *= factor


if __name__ == "__main__":
    main()
