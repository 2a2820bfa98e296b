// Package graph is the program: values, nodes, dims and operators as data. It
// knows nothing else of memopt; every other room speaks in its words.
//
// # Words
//
// A Value has a type and a Shape but no numbers; a Tensor is numbers. A Node
// is one use of an Op. Nodes stand in an order in which they can run, and each
// belongs to a Phase: forward, backward or update. A Dim is a number, a name
// or a formula of those, so a graph is planned once for every batch size.
//
// # Text
//
// A graph prints as text, and Parse reads the text back; tests are written in
// it. A line defines one thing:
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
// Small integer values carry their contents as formulas (Value.Ints), so that
// exports which compute shapes at run time (Shape → Gather → Mul → Concat →
// Reshape) have symbolic shapes everywhere. FoldInts then removes the chains.
//
// # Passes
//
// Clean is a table of passes, one file each, run in rounds until none finds
// anything; the table says why each is there, and another what must run before
// what. A pass knows no operator: it reads the facets NoOp, Simplify, Unfold
// and Fuse. Names of inputs, results and parameters stay.
//
// # Library
//
// Operators are values of type Op in a Library. No stage asks for one by name:
// a planner reads Recompute and InPlace, autograd reads Grad, a device Eval.
package graph
