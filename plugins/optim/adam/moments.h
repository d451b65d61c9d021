/* moments.h: shared by Adam and AdamW: the moments of the gradient and their bias correction. */
#ifndef ADAM_MOMENTS_H
#define ADAM_MOMENTS_H

#include <weft/expr.h>
#include <weft/optim.h>

#include <stdbool.h>

/* The option `eps`. */
extern const weft_option adam_eps;

/* The options of an update, as the user gave them; decay is 0 for parameters that are no
 * matrices. */
typedef struct adam_options {
    double beta[2], eps, decay;
} adam_options;
weft_status adam_read_options(const weft_conf *conf, const weft_builder *b, const weft_update *u,
                              adam_options *out);

/* The moments of gradient `g`, which are updated, and the terms of the update:
 *
 *   m = m + (1 - beta1) * (g - m)
 *   v = beta2 * v + (1 - beta2) * g * g
 *   c = 1 - beta^count,  rate = lr / c1,  below = sqrt(v / c2) + eps */
typedef struct adam_terms {
    weft_tensor m, rate, below;
} adam_terms;
adam_terms adam_moments(weft_expr *f, const weft_update *u, const adam_options *o, weft_tensor g);

/* m * rate / below */
weft_tensor adam_step(weft_expr *f, const adam_terms *t);

#endif
