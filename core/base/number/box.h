/* base/number/box.h: blocks of a tensor, and what two of them have in common.
 *
 * A box is a range on every axis. Its elements, counted with the last axis fastest, have flat
 * numbers within it. The common elements of two boxes are rows that are contiguous in both: long
 * ones where trailing axes are whole in both boxes. Rows are numbered in the order of their
 * elements, which is the same in either box. */
#ifndef BASE_NUMBER_BOX_H
#define BASE_NUMBER_BOX_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct box {
    uint32_t rank;
    int64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES];
} box;

uint64_t box_elements(const box *b); /* the caller has seen to it that the product fits */

typedef struct box_rows {
    uint64_t n, length; /* rows; elements of each */
    uint64_t first[2];  /* flat number of the first common element in either box */
    uint32_t axes;      /* that rows are counted over */
    uint64_t size[WEFT_MAX_AXES], stride[2][WEFT_MAX_AXES];
} box_rows;

/* What `a` and `b`, of one rank and in the same coordinates, have in common; n is 0 for nothing. */
void box_common(const box *a, const box *b, box_rows *out);

/* Where row `i` begins in either box. */
void box_row(const box_rows *r, uint64_t i, uint64_t at[2]);

/* The first row that ends behind element `at` of box `side`; r->n when none does. */
uint64_t box_row_from(const box_rows *r, uint32_t side, uint64_t at);

#endif
