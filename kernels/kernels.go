// Package kernels is the operator library: one file an operator, and in that
// file everything about it: shape rule, gradient, plain reference, quick CPU
// form, lowering to kernels, price, recompute class, the samples it is tested
// with and what tests must know of it. Adding an operator is adding its file;
// nothing else is edited.
//
// A file that has an operator's name holds that operator and its gradient
// operator. The others hold what many share:
//
//	infer.go, whole.go, fold.go      rules of shapes, and of numbers known before a run
//	map.go, rows.go, index.go        loops over elements; strides
//	reduce.go, product.go, pool.go…  families of operators: a definition is a row
//	pointwise.go, chain.go           expressions of elementwise operators
//	…lower.go, shader.go, halves.go  what lowerings of several operators share
//	pieces.go, …pieces.go            patterns of operators that passes look for
//	sample.go, interpret.go          samples as text; running a graph plainly
//	losses.go                        what is put on a model that has no loss
//
// Float32 arithmetic over slices is package internal/f32, the reading and editing
// of SPIR-V is internal/spirv: they know no operators.
//
// # Rules of the house
//
//   - Eval is what is true, written plainly, for every element type the
//     operator takes; float16 and bfloat16 are storage, arithmetic is float32
//     or wider. Fast is the CPU device's form for the types that matter; it
//     may leave the rest to Eval by calling it.
//   - Lower is the form for devices that run kernels (see graph.Lowering, and
//     the manual of kernels/vulkan): dispatches of a shader as data. Elementwise
//     operators give an expression (pointwise.go). A shader is a .comp file beside the
//     operators and a line shader(…); go generate compiles it. It is written for
//     float32; halves.go makes of it what 16-bit floats need.
//   - An operator that makes an element of its output from one of each input says
//     so (Pointwise): several such run as one, the operator Chain. The device that
//     runs kernels has a kernel written for each chain, of the expressions that
//     they have alone (chain.go).
//   - An output element is computed by one worker in one fixed order, so that
//     results depend neither on the worker count nor on the run: a recomputed
//     value has the same bits as the first.
//   - A graph holds only the newest form of an operator. An older opset's form
//     is an Op with Since and Rewrite in the same file.
//   - An operator says itself when it does nothing (NoOp), what it could say
//     with less (Simplify, the same bits), in which pieces plans do better
//     (Unfold), and in which ones others write it (Fuse, up to rounding; its
//     gradient keeps no more than theirs). pieces.go has what patterns share;
//     testdata/passes shows each one.
//   - No gradient for an input means that it is zero. What a rule leaves out
//     otherwise, as the gradient of class weights, it lists (Fixed).
//   - Gradient rules build ordinary nodes. Sums that undo broadcasting are
//     made by sumTo. A gradient operator that ONNX Runtime also has carries its
//     domain and meaning (com.microsoft.GeluGrad); others are memopt's own.
//   - A shape that a rule needs is a constant of formulas (shapeOf), never the
//     value itself: keeping a tensor alive for its shape would cost its bytes.
package kernels

import "memopt/memopt/graph"

// Library is every operator there is.
var Library = &graph.Library{}

// The domains of operators that are not ONNX's own.
const (
	microsoft = "com.microsoft"
	own       = "memopt"
)

func define(op graph.Op) *graph.Op {
	op.Elementwise = op.Elementwise || op.Pointwise
	if op.Elementwise && op.Ragged == nil {
		op.Ragged = raggedPointwise
	}
	if op.Lower != nil {
		op.Lower = withAddresses(withHalves(op.Lower, op.Overwrites))
	}
	return Library.Define(op)
}
