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
//   - A small constant is one that does not depend on what a step is fed, where no
//     size of the program varies and its shape cannot tell.
//   - Operators beyond upstream's table may run again if the library says so;
//     such keys are Beyond, and levels heed them only where there are no others.
//   - A structure has a canonical name, whatever order its nodes run in, and a
//     setting may spell it in any of its orders.
//   - Layers begin where one value crosses, beside what crosses all of them, and
//     like segments come again and again, whatever they are made of: an encoder's
//     and a decoder's, the blocks of each stage. testdata/layers.txt has families.
//
// # Where each defect is shown
//
// Each defect of release 1.19 is a case in text, upstream above ours; 7, 11 and 12
// are no numbers of any.
//
//	D1   any count takes every place                       testdata/choose.txt
//	D2   one of several kept outputs is counted            testdata/defects.txt
//	D3   compromises where all can be made again           testdata/defects.txt
//	D4   one strategy an ID; level 2 saves less than 1     testdata/choose.txt
//	D5   ON and OFF say what was asked, not what is done   testdata/choose.txt
//	D6   the report counts matches as applied              testdata/choose.txt
//	D8   what has to be kept instead is not counted        testdata/defects.txt
//	D9   one kept output stands for all of its node        testdata/defects.txt
//	D10  one structure has several IDs                     testdata/defects.txt
//	D13  one ID has several structures                     testdata/defects.txt
//	D14  what cannot be read is guessed or dropped         ../../configs/testdata/upstream.txt
//	D15  what the caller gets is counted as saved          testdata/defects.txt
//	D16  no cost, no effect on the peak, no choice         ../../memopt/testdata/ort/defects.txt
//	D17  sizes of the first batch alone                    ../../memopt/testdata/ort/defects.txt
//	D18  copies of dropouts fall out of step               ../../memopt/testdata/ort/defects.txt
//	D19  a session for the analysis alone                  testdata/defects.txt
//	D20  operators in a fixed table                        testdata/defects.txt
//	D21  levels that do not exist are half obeyed          ../../configs/testdata/upstream.txt
//	D22  layers by one pattern                             testdata/defects.txt
//	D23  without layers the peak stays where it was        testdata/choose.txt
//	D24  weights made anew on equal terms                  testdata/defects.txt
//	D25  a test of the order that cannot fail              testdata/choose.txt
//	D26  plans that save nothing                           testdata/defects.txt
//	D27  a view keeps what was made again                  testdata/defects.txt
package cluster
