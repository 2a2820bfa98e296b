// Package verify runs the ONNX project's node tests on the operator library.
//
//	report, err := verify.Run(os.DirFS("onnx/backend/test/data"))
//	fmt.Print(report.Table())
//
// # Cases
//
// A case is a folder with model.onnx and one or more test_data_set_N, which contain input_I.pb and output_I.pb, one
// TensorProto per file, in the order of the graph's inputs and outputs. Run finds cases at any depth. A folder
// "X_expanded…" is X as a graph of other operators.
//
// A case runs twice: in kernels.Interpret, which calls every operator's Eval, and on the CPU device under a
// plan, which calls every operator's Fast form if there is one. Both must give the expected outputs: the same
// types and shapes, floats within a thousandth (rtol 1e-3, atol 1e-7, the tests' own tolerance; NaN equals NaN),
// everything else exactly. For 16-bit floats a thousandth would leave no room for other rounding; they may
// differ by two units of the last place, and the report says so if they do. The same holds for float32, in units
// of the output's largest number.
//
// # Constant inputs
//
// Plans are made for shapes, so everything that determines shapes must be known when planning: axes, pads, sizes,
// target shapes, steps of a range. The node tests pass these as inputs of the graph. If a model cannot be read
// otherwise, it is specialized: all inputs but floats become constants of the graph or, if that is not enough, all
// inputs; those that turn out unnecessary become inputs again. Result.Known names the remaining constants.
//
// # Outcomes
//
// A case is passed, failed, or not applicable: its operator is not in the library, its opset is not supported, or
// its values have a type that graphs do not have (strings, sequences, 4-bit floats). If an operator of the library
// refuses a case, the case has failed. The reason is always given.
package verify
