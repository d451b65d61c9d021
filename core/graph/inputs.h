/* graph/inputs.h: the inputs of a graph: the fields of the data, and those that the core makes.
 *
 * A graph whose `fields` are set accepts only inputs that something fills, with the type and shape
 * that it fills; a graph without fields accepts those that its model declares. All functions:
 * [plan], any thread. */
#ifndef GRAPH_INPUTS_H
#define GRAPH_INPUTS_H

#include <weft/data.h>

#include "graph/graph.h"

#define GRAPH_MAX_FIELDS 32u

/* The number of its row in its sample, WEFT_I32 [tokens], and the number of the first row of a
 * micro-batch in the run, one WEFT_I64: the inputs of the core's own. */
#define GRAPH_POSITIONS "positions"
#define GRAPH_FIRST_TOKEN "first_token"

/* The fields of a data source, which a plugin has made: names, types, axes and sizes. */
weft_status graph_check_fields(const weft_field *fields, uint32_t n);

/* The field of that name, "positions" included; NULL: none. */
const weft_field *graph_find_field(const weft_field *fields, uint32_t n, const char *name);

/* An input that a model or a replacement declares: something fills it, with this shape. */
weft_status graph_check_input(const graph *g, const char *name, const weft_shape *s);

/* The first input that has rows; 0: the graph has none. The mesh axes over which it is split are
 * those over which all inputs are. */
weft_tensor graph_first_input(const graph *g);

#endif
