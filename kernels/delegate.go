package kernels

import "memopt/internal/graph"

// seenAs is node n as if it were ONNX operator op with the same inputs and the first
// outputs. Operators that extend another one delegate to it.
func seenAs(n *graph.Node, op string, outputs int) *graph.Node {
	m := *n
	m.Op, m.Outputs = Library.Find("", op, 0), n.Outputs[:outputs]
	return &m
}

// callAs is seenAs for a call.
func callAs(c *graph.Call, op string, outputs int) *graph.Call {
	d := *c
	d.Node, d.Out = seenAs(c.Node, op, outputs), c.Out[:outputs]
	return &d
}

// plainForm and fastForm select the form of an operator that others delegate to.
func plainForm(op *graph.Op) func(*graph.Call) { return op.Eval }
func fastForm(op *graph.Op) func(*graph.Call)  { return op.Fast }
