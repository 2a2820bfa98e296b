// Package cluster finds clusters: forward nodes that can be recomputed as one, to give the backward
// pass an output that it reads from values that are kept anyway. The same operators at several
// places share an ID such as "MatMul+Add+Gelu+", which is how users of ONNX Runtime name them, and
// their savings are a formula of batch and sequence.
//
// # Words
//
// A program is an outline: nodes by name as in the file, including views. Analyse takes a trainer's
// program, with a YieldOp between its passes; AnalyseGraph a graph whose nodes have phases. A
// stashed output is one that the backward pass reads. An entry is a node with stashed outputs. An
// Option is one way to recompute them: entirely, or, as a compromise, from a smaller value that is
// kept instead. A Key is all places of one option, or of several that must be on together. Choose
// turns settings into choices, Rewrite makes the program in which the choices run again, Table and
// Report print what ONNX Runtime prints.
//
// # Two sets of rules
//
// Under Rules.Compat everything is as in release 1.19, including its defects: keys, frequencies,
// numbers, rewritten nodes and their order. Otherwise:
//
//   - Every stashed output counts, not only the last one; values that a plan has to keep instead (an
//     index, a constant) are in Keeps.
//   - Whether an output is available is decided for the output, not for its node. Where this makes a
//     cluster longer, upstream's ID for it is the option's Spelling.
//   - Storage is counted once: views are recomputed with the option that recomputes their storage, and
//     a view of an input or of a result of the step is no plan.
//   - Options that save nothing are left out; Dropped says why.
//   - In a program without symbolic sizes a small shape does not make a constant: the value must not
//     depend on the inputs of a step, either.
//   - Operators beyond upstream's table may run again if the library says so; such keys are Beyond, and
//     levels use them only if there are no others.
//   - A structure has one canonical name, whatever order its nodes run in, and a setting may spell it
//     in any of its orders.
//   - Layers begin where one value crosses, not counting values that cross all layers, and similar
//     segments repeat, whatever operators they have: an encoder's and a decoder's, the blocks of each
//     stage. testdata/layers has families.
//
// # Where each defect is shown
//
// Each defect of release 1.19 is a case in a text file, upstream's result above ours; the numbers
// 7, 11 and 12 are not used.
//
//	D1   any count takes every place                       testdata/choose/counts.txt
//	D2   only one of several stashed outputs is counted    testdata/defects/kept.txt
//	D3   compromises where all can be recomputed           testdata/defects/kept.txt
//	D4   one strategy an ID; level 2 saves less than 1     testdata/choose/strategies.txt
//	D5   ON and OFF show requests, not their effect        testdata/choose/counts.txt
//	D6   the report counts matches as applied              testdata/choose/counts.txt
//	D8   values kept instead are not counted               testdata/defects/kept.txt
//	D9   one stashed output stands for all of its node     testdata/defects/kept.txt
//	D10  one structure has several IDs                     testdata/defects/kept.txt
//	D13  one ID has several structures                     testdata/defects/again.txt
//	D14  unreadable settings are guessed or dropped        ../../configs/testdata/upstream.txt
//	D15  results of the step are counted as saved          testdata/defects/again.txt
//	D16  no cost, no effect on the peak, no choice         ../../memopt/testdata/ort/defects.txt
//	D17  sizes are those of the first batch                ../../memopt/testdata/ort/defects.txt
//	D18  copies of dropouts draw other numbers             ../../memopt/testdata/ort/defects.txt
//	D19  the analysis needs a session                      testdata/defects/layers.txt
//	D20  operators in a fixed table                        testdata/defects/again.txt
//	D21  unknown levels are obeyed in part                 ../../configs/testdata/upstream.txt
//	D22  layers are found by one pattern                   testdata/defects/layers.txt
//	D23  without layers the peak does not fall             testdata/choose/border.txt
//	D24  casts of weights are recomputed like activations  testdata/defects/again.txt
//	D25  the test of the order cannot fail                 testdata/choose/border.txt
//	D26  plans that save nothing                           testdata/defects/again.txt
//	D27  a view keeps a recomputed value alive             testdata/defects/again.txt
package cluster
