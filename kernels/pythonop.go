package kernels

import "memopt/memopt/graph"

// A function of Python's cannot be run here, and a file has neither its formula
// nor the shapes of what it gives. It is in the library to say so.
func init() {
	for _, name := range []string{"PythonOp", "PythonOpGrad"} {
		in, out := "inputs...?", "context, outputs...?"
		if name == "PythonOpGrad" {
			in, out = "context, inputs...?", "outputs...?"
		}
		define(graph.Op{
			Name:   name,
			Domain: microsoft,
			Doc:    "a function of Python's (torch.autograd.Function), which is refused: it can be neither run nor given shapes",
			In:     in,
			Out:    out,
			Attrs: "func_name string, name string, comment string, training_mode int, safe_run_mode int, inplace int, input_convention string," +
				"input_tensor_types ints, input_tensor_ranks ints, input_requires_grads ints, tensor_reuse_map ints, " +
				"input_int_scalars ints, input_int_scalar_positions ints, input_float_scalars floats, input_float_scalar_positions ints, " +
				"input_bool_scalars ints, input_bool_scalar_positions ints, " +
				"input_int_tuples ints, input_int_tuple_positions ints, input_int_tuple_begins ints, " +
				"input_float_tuples floats, input_float_tuple_positions ints, input_float_tuple_begins ints, " +
				"input_pointer_scalars ints, input_pointer_scalar_positions ints, " +
				"output_convention string, output_tensor_types ints, output_tensor_ranks ints, output_tensor_requires_grads ints, output_tensor_shapes ints",
			Rewrite: func(_ *graph.Builder, n *graph.Node) []*graph.Value {
				f := n.Str("func_name")
				if f == "" {
					f = n.Str("name")
				}
				n.Fail("the function %q is Python's: it cannot be run here; export the model with that function written in operators (for flash attention: attention as plain matrix products, or the operator Attention)", f)
				return nil
			},
		})
	}
}
