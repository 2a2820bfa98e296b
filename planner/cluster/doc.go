// Package cluster finds what can be computed again as one: a forward node
// whose output the backward pass reads, together with the nodes before it
// whose outputs nobody keeps. Clusters of the same operators in different
// layers share an ID such as "Add+Gelu+", which is how ONNX Runtime's users
// name them, and their savings are formulas of batch and sequence.
//
// Find works on a graph whose nodes know their passes: views own no bytes, so a
// cluster begins at the node that owns the storage. All else works on outlines,
// programs as their files spell them, and comes in two kinds: ONNX Runtime
// 1.19's rules to the letter (Rules.Compat) and the mended ones.
//
//	a, err := cluster.Analyse(o, rules)         // what can be computed again, node by node
//	keys := a.Keys()                            // the same by structure: lines of the plan table
//	chosen := a.Choose(requests)                // BiasGelu+:1:3, by any spelling
//	after := cluster.Rewrite(a, chosen.Choices, seed)
//	order, err := cluster.MemoryEfficientOrder(after)
//	lives, err := cluster.Simulate(after, order, sizes)
//
// # Order
//
// MemoryEfficientOrder is ONNX Runtime's order for programs with copies, in every
// position, if nodes stand in the order of the session's index: as in the file
// that the session was given, then what its fusions made, then copies. A saved
// file has lost that index; orders of it differ where there are ties.
//
// # Rewriting
//
// Copies are named NAME_recompute and follow the nodes of the file in the order
// in which they are made, later layers first. What draws at random gets a seed,
// so that its copy draws the same. ONNX Runtime's kernels count their runs, so a
// forward pass without its backward pass sets the two apart for good; ours draw
// from a counter of the step. Under Compat seeds are ONNX Runtime's, otherwise
// those by which our devices draw anyway.
//
// # Tables
//
// PrintTable, PrintNotes and Report print what ONNX Runtime prints, blank for
// blank. Their content is the same too where upstream's is not left to chance:
//
//   - Of a node with several kept outputs upstream counts any one, another in
//     each run. Ours counts the last under Compat, else all of them.
//   - Of names for one size upstream shows any; ours shows the file's.
//   - Upstream numbers sizes without a name by a counter of the process; ours
//     counts from 0 in the file. What the session inferred and did not save is
//     "unknown".
//   - A level's settings are in no file, so their path is empty.
//   - Outputs in the report are in ascending order, so one kind of node has one
//     block.
package cluster
