/* bad/cxx.cc: a rule in C++. With LETS_OUT an exception leaves its update(). */
#include "faults.h"

#include <new>
#include <vector>
#include <weft/expr.h>
#include <weft/optim.h>

namespace
{

weft_status subtract(const weft_host *host, const weft_builder *b, const weft_update *u)
{
    weft_expr f = {b, weft_check_args(host, u, sizeof *u, WEFT_PARAM_MATRIX)};
    std::vector<weft_tensor> factors{u->grad, u->lr};
    const weft_tensor step = weft_op2(&f, "mul", factors.front(), factors.back());
    weft_assign(&f, u->param, weft_op2(&f, "sub", u->param, step));
    return f.st;
}

weft_status update(void *module, const weft_conf *conf, const weft_builder *b, const weft_update *u)
{
    const auto *host = static_cast<const weft_host *>(module);
    (void)conf;
    if (BAD == LETS_OUT)
        return subtract(host, b, u);
    try {
        return subtract(host, b, u);
    } catch (const std::bad_alloc &) {
        return b->fail(b->ctx, WEFT_NO_MEMORY, "no memory for a list of factors");
    }
}

const weft_rule table = {sizeof table, WEFT_UNIT_ELEMENT, update};
const weft_component rule = {
    sizeof rule, 0, "weft.rule/1", "acme.cxx", "subtracts the gradient", nullptr, &table, nullptr};
const weft_component *const components[] = {&rule, nullptr};

} // namespace

WEFT_PLUGIN("org.acme.cxx", "1", "MIT", components, weft_open_host, nullptr);
