// Package graph represents programs: values, nodes, dims and operators. It depends on no other
// package of memopt except stop, and all others use its types.
//
// # Terms
//
// A Value has a type and a Shape; a Tensor has numbers. A Node is one use of an Op. Nodes are in
// a valid running order, and each belongs to a Phase: forward, backward or update. A Dim is a
// number, a name or a formula of those, so that a graph is planned once for all batch sizes.
//
// # Text
//
// A graph prints as text, and Parse reads the text back; tests use it. A line
// defines one thing:
//
//	graph gpt
//	recorded threads "4"
//	x f32[batch, 64] = input
//	w f32[64, 64] = param
//	to i64[2] = const {batch*seq, 64}
//	m f32[64, 64] = state
//	h f32[batch, 64] = MatMul(x, w)
//	y, mask = Dropout(h, _, on) seed=7 @"layer 0/dropout"
//	backward:
//	…
//	update:
//	…
//	output y
//	loss l
//	update w = w2
//	grad w = dw
//	hold h until "layer 0/dropout"
//	assume seq == 2*n @"node"
//
// Types on the left of a node may be left out. Names that are not identifiers
// are quoted. A constant shows its numbers if they are few, else the word
// data. A # begins a comment.
//
// # Known contents
//
// Small integer values have their contents as formulas (Value.Ints), so that models that
// compute shapes at run time (Shape → Gather → Mul → Concat → Reshape) have symbolic shapes
// everywhere. FoldInts then removes these chains.
//
// # Passes
//
// Clean runs a table of passes, one file each, in rounds until none finds anything; another
// table says which must run before which, and why. Passes know no operators: they use the
// rules NoOp, Simplify, Unfold and Fuse. Names of inputs, results and parameters stay.
//
// # Library
//
// Operators are values of type Op in a Library. Stages do not look them up by name: the
// planner reads Recompute and InPlace, autograd reads Grad, a device Eval.
package graph
