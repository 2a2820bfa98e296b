// Package bench measures memopt against a peer or a baseline, in one run.
//
// A Bench is a table of cases; Benches lists them. A Case has our Side, a rival's, and a bar that
// says how close to the rival is close enough. A side only has to repeat one step, so a case is a
// few lines: a graph on a device of ours, a function of a script in peers/, or a loop in Go.
//
// A machine is never quiet. Both sides take turns in short rounds, so that disturbances hit both,
// and the fastest round of each counts, with the median beside it. With one thread the clock is CPU
// time; on all cores it is wall time, since CPU time would include spinning threads of a peer. So
// that these do not take a core from the other side, there is a rest before each turn on all cores,
// in which they fall asleep; neither side's way of waiting is changed.
//
// A peer is an embedded Python script that runs as a child process: peers/loop.py is the protocol,
// a file beside it the cases. A missing peer is reported with the command that installs it, and our
// own figures are still measured.
//
// Another bench is one file with its table, and a row in Benches.
//
// PyTorch's bench is a Python program, torch/run.py, which measures in one process, since each way
// of running a step is a change of a module. Torch runs it once for each model and judges its
// output.
package bench
