/* tests/nccl/double.h: what the double of libnccl was asked, and what it is to answer. */
#ifndef NCCL_DOUBLE_H
#define NCCL_DOUBLE_H

typedef struct double_state {
    char calls[4096];
    char *base;  /* addresses are written down from here */
    int version; /* of the library */
    int answer;  /* of calls */
    int state;   /* of a communicator */
    int busy;    /* times that it is at work first */
} double_state;

#endif
