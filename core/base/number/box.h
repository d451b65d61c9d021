/* base/number/box.h: blocks of a tensor and their intersections.
 *
 * A box is a range on every axis. Its elements have flat indices, the last axis fastest. The
 * intersection of two boxes is a list of rows that are contiguous in both; rows are long where
 * trailing axes are whole in both boxes. Rows are numbered in element order, which is the same in
 * either box. */
#ifndef BASE_NUMBER_BOX_H
#define BASE_NUMBER_BOX_H

#include <stdbool.h>
#include <weft/base.h>

typedef struct box {
    uint32_t rank;
    int64_t start[WEFT_MAX_AXES], size[WEFT_MAX_AXES];
} box;

uint64_t box_elements(const box *b); /* the caller checks that the product fits */

typedef struct box_rows {
    uint64_t n, length; /* number of rows; elements of each */
    uint64_t first[2];  /* flat index of the first common element in either box */
    uint32_t axes;      /* axes that the row number runs over */
    uint64_t size[WEFT_MAX_AXES], stride[2][WEFT_MAX_AXES];
} box_rows;

/* Intersection of `a` and `b`, of equal rank and in the same coordinates; n is 0 if it is empty. */
void box_common(const box *a, const box *b, box_rows *out);

/* Where row `i` begins in either box. */
void box_row(const box_rows *r, uint64_t i, uint64_t at[2]);

/* The first row that ends after element `at` of box `side`; r->n if there is none. */
uint64_t box_row_from(const box_rows *r, uint32_t side, uint64_t at);

#endif
