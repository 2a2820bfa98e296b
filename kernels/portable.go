package kernels

import "memopt/memopt/graph"

// Portable reports whether other runtimes have the operator: ONNX does, or
// ONNX Runtime on a CPU. A model for them may be made of such operators only.
func Portable(op *graph.Op) bool { return !Ours(op) && !onlyCUDA[op.FullName()] }

// Ours reports whether only memopt has the operator.
func Ours(op *graph.Op) bool { return op.Domain == own }

// onlyCUDA lists operators of ONNX Runtime that its CPU cannot run.
var onlyCUDA = map[string]bool{
	"com.microsoft.BiasSoftmax": true,
}
