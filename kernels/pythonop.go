package kernels

import "memopt/internal/graph"

// PythonOp is in the library only to be refused with an explanation: the file has neither the
// function's code nor the shapes of its outputs.
func init() {
	for _, name := range []string{"PythonOp", "PythonOpGrad"} {
		in, out := "inputs...?", "context, outputs...?"
		if name == "PythonOpGrad" {
			in, out = "context, inputs...?", "outputs...?"
		}
		define(graph.Op{
			Name:   name,
			Domain: microsoft,
			Doc:    "a Python function (torch.autograd.Function); always refused, as it can neither be run nor given shapes",
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
				n.Fail("the Python function %q cannot be run here; export the model with that function written in operators (for flash attention: attention as plain matrix products, or the operator Attention)", f)
				return nil
			},
		})
	}
}
