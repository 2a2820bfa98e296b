// Package verify runs the ONNX project's node tests on the operator library.
//
//	report, err := verify.Run(os.DirFS("onnx/backend/test/data"))
//	fmt.Print(report.Table())
//
// # Cases
//
// A case is a folder with model.onnx and one or more test_data_set_N, each of
// which has input_I.pb and output_I.pb, one TensorProto a file, in the order of
// the graph's inputs and outputs. Run finds them at any depth. A folder
// "X_expanded…" is X written as a graph of other operators.
//
// A case is run twice: by kernels.Interpret, which is every operator's Eval, and
// by the CPU device under a plan, which is every operator's Fast form where there
// is one. Both must give the expected outputs: the same types and shapes, floats
// within a thousandth (rtol 1e-3, atol 1e-7, the tests' own tolerance; NaN equals
// NaN), all else exactly. For 16-bit floats a thousandth would be equal bits;
// they may be two units of the last place off, and are reported if they are. So may
// float32 be, in units of the output's greatest number.
//
// # What is known ahead
//
// A plan is made for shapes, so what shapes follow from must be known while it
// is made: axes, pads, sizes, target shapes, steps of a range. The node tests
// give them as inputs of the graph. Where a model cannot be read without, it is
// specialised: some inputs become constants of the graph, first those that are no
// floats, then all, and each of these is an input again if the model can be read
// so. Result.Known names those that are left.
//
// # Outcomes
//
// A case is passed, failed, or not applicable: its operator is not in the
// library, its opset is not read, or its values have a type that graphs do not
// have (strings, sequences, 4-bit numbers). An operator of the library that
// refuses a case has failed. The reason is always told.
package verify
