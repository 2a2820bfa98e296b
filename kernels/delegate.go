package kernels

import "memopt/memopt/graph"

// seenAs is a node under another operator of ONNX's, of which it has the inputs
// and the first outputs: an operator that does a little more than another
// leaves the rest to it.
func seenAs(n *graph.Node, op string, outputs int) *graph.Node {
	m := *n
	m.Op, m.Outputs = Library.Find("", op, 0), n.Outputs[:outputs]
	return &m
}

// callAs is the same for a call.
func callAs(c *graph.Call, op string, outputs int) *graph.Call {
	d := *c
	d.Node, d.Out = seenAs(c.Node, op, outputs), c.Out[:outputs]
	return &d
}

// The two forms of an operator, for those that run others.
func plainForm(op *graph.Op) func(*graph.Call) { return op.Eval }
func fastForm(op *graph.Op) func(*graph.Call)  { return op.Fast }
