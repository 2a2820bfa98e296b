// Package bench puts our figures beside a peer's or a baseline's, in one run.
//
// A Bench is a table of cases; Benches lists them. A Case has our Side and a
// rival's, and a bar that says how near to the rival is near enough. A side
// only has to be able to repeat one step, so a case is a few lines: a graph on
// a device of ours, a function of a script in peers/, or a loop in Go.
//
// A machine is never quiet. Both sides take turns in short rounds of the same
// process pair, so that whatever else runs hits both, and the quickest round
// of each counts, with the median beside it. On one thread the clock is CPU
// time, on all cores it is wall time: CPU time would also count the threads of
// a peer that wait for work while they spin. So that they do not take a core
// from the other side either, there is a rest before a turn on all cores, in
// which they fall asleep; neither side is told to wait otherwise than it does
// by itself.
//
// A peer is a Python script that is embedded here and runs as a child: peers/
// loop.py is the protocol, a file beside it the cases that it knows. A peer
// that is not installed is said so, with the command that installs it, and our
// own figures still stand.
//
// Another bench is one file with its table, and a row in Benches.
//
// PyTorch's bench is a Python program, torch/run.py: what it measures is one process's
// own, since each way to run a step is a way to change a module. Torch runs it once for
// each model and judges what it says.
package bench
