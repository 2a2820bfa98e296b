// Package kernels is the operator library. Each operator has one file with everything about
// it: shape inference, gradient, reference implementation, fast CPU implementation, lowering
// to Vulkan kernels, cost, recompute class, samples and other facts for tests. To add an
// operator, add its file; nothing else changes.
//
// A file named after an operator holds that operator and its gradient operator. The other
// files hold what several operators share:
//
//	infer.go, whole.go, fold.go      shape inference and constant folding
//	map.go, rows.go                  loops over elements
//	reduce.go, product.go, pool.go…  families of operators
//	chain.go                         elementwise operators fused into one
//	…lower.go                        lowerings of one family: norms, losses, dropouts, gathers
//	pieces.go, …pieces.go            pattern matching for graph passes
//	sample.go, interpret.go          samples as text; the reference interpreter
//	losses.go                        losses for models that have none
//
// What several families share in lowering to Vulkan kernels is package lower, with all shaders.
// Float32 arithmetic over slices is package internal/f32, arithmetic of shapes and strides is
// package internal/index, reading and editing SPIR-V is package internal/spirv. None knows operators.
//
// # Conventions
//
//   - Eval is the reference: plain code for every element type the operator takes.
//     Arithmetic on float16 and bfloat16 is float32 or wider. Fast is the CPU device's
//     implementation for the types that matter; it may call Eval for the others.
//   - Lower is the Vulkan implementation (see graph.Lowering and the documentation of
//     kernels/vulkan): a list of dispatches as data. Elementwise operators only give an
//     expression (lower.Pointwise). A shader is a .comp file in lower, declared by a call of
//     lower.Shader; go generate ./kernels compiles it. It is written for float32; lower derives
//     the form for 16-bit floats.
//   - An operator is Pointwise if each output element depends on one element of each input.
//     Several of them may be fused into the operator Chain, for which Vulkan kernels are
//     assembled from their expressions (chain.go).
//   - Each output element is computed by one worker in a fixed order, so results do not depend
//     on the number of workers or vary between runs: a recomputed value has the same bits.
//   - A graph holds only the newest form of an operator. The form of an older opset is an Op
//     with Since and Rewrite in the same file.
//   - Graph passes ask the operator: NoOp (it returns its input), Simplify (equivalent with
//     fewer nodes, same bits), Unfold (parts that plan better), Fuse (a decomposition of it
//     that exporters write; equal up to rounding, and its gradient must not keep more).
//     pieces.go has helpers for patterns; testdata/passes shows each pass.
//   - A nil gradient for an input means zero. Inputs whose gradient a rule does not support,
//     such as class weights, are listed in Fixed.
//   - Gradient rules build ordinary nodes; sumTo undoes broadcasting. A gradient operator that
//     ONNX Runtime has, too, uses its domain and definition (com.microsoft.GeluGrad); the
//     others have domain memopt.
//   - Rules that need only a shape take it as a constant of dims (shapeOf), never from the
//     value: that would keep the whole tensor alive.
package kernels

//go:generate go test -run TestShaders -update .

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// Library holds all operators.
var Library = &graph.Library{}

// The domains of operators that are not in the ONNX standard.
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
		op.Lower = lower.WithAddresses(lower.WithHalves(op.Lower, op.Overwrites))
	}
	return Library.Define(op)
}
