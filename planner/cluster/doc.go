// Package cluster finds what can be computed again as one: a forward node of
// which the backward pass reads something, together with the nodes before it
// that make it from what is there anyway. The same operators at several places
// share an ID such as "MatMul+Add+Gelu+", which is how ONNX Runtime's users name
// them, and what they save is a formula of batch and sequence.
//
// # Words
//
// A program is an outline: the nodes by names, as a file spells them, views
// among them. Analyse takes a trainer's program, with a YieldOp between its
// passes, AnalyseGraph a graph whose nodes know theirs. An entry is a node with
// stashed outputs, those that the backward pass reads. An Option is one way to
// make them again: all of it, or, as a compromise, from something smaller that is
// kept instead. A Key is every place of one option, or of several that must be on
// together; Choose turns settings into choices, Rewrite makes the program in
// which the choices run again, Table and Report print what ONNX Runtime prints.
//
// # Two sets of rules
//
// Under Rules.Compat all is as release 1.19 does it, its defects included: keys,
// frequencies, numbers, rewritten nodes and their order. Otherwise:
//
//   - Every kept output counts, not the last one alone; what a plan has to keep
//     instead (an index, a constant) is in Keeps.
//   - Whether an output is there is asked of the output, not of its node. Where
//     this makes a plan longer, upstream's ID for it is the option's Spelling.
//   - Storage is counted once: views of it go with the plan that makes it again,
//     and a view of what a step is fed, or what the caller gets, is no plan.
//   - What saves nothing is left out, and Dropped says why.
//   - Operators beyond upstream's table may run again if the library says so;
//     such keys are Beyond, and levels heed them only where there are no others.
//   - A structure has a canonical name, whatever order its nodes run in, and a
//     setting may spell it in any of its orders.
//   - Layers begin where one value crosses and the same comes again and again,
//     whatever they are made of.
//
// testdata/defects.txt and testdata/choose.txt show both sets side by side.
package cluster
