package planner

import (
	"math"
	"math/bits"

	"memopt/internal/graph"
	"memopt/planner/profile"
)

// What operators and shapes say, in numbers of a binding. The model asks it once for nodes that are alike; Check asks it
// again for the plan that comes of that.

// price is what a node takes, before it is weighed: operations, and bytes read and written.
type price struct {
	flops int64
	moved float64 // a node may read what is large many times
	// inside is bytes moved within a node, which profiles price. Costs by flops leave them out, as ONNX Runtime's do.
	inside float64
	// steps are what the nodes of a body take that run one after another.
	steps []profile.Work
}

// bytesOf is what a value takes. A product of numbers is quicker than a formula, which says what is wrong with one that
// is too large.
func bytesOf(v *graph.Value, shape []int, b *graph.Binding) (int64, error) {
	product := uint64(v.Type.Size())
	for _, n := range shape {
		high, low := bits.Mul64(product, uint64(n))
		if high != 0 || low > math.MaxInt64 {
			return b.Eval(v.Bytes())
		}
		product = low
	}
	return int64(product), nil
}

// work is what a node takes, where values take bytes.
func work(n *graph.Node, b *graph.Binding, bytes []int64) (p price, err error) {
	if n.Op.Flops != nil {
		if p.flops, err = eval(b, func() graph.Dim { return n.Op.Flops(n) }); err != nil {
			return p, err
		}
	}
	if n.Op.Inside != nil {
		inside, err := eval(b, func() graph.Dim { return n.Op.Inside(n) })
		if err != nil {
			return p, err
		}
		p.inside = float64(inside)
	}
	if n.Op.StepByStep {
		if p.steps, err = stepsOf(n, b); err != nil {
			return p, err
		}
	}
	for i, v := range n.Inputs {
		read := int64(0)
		switch {
		case v == nil:
		case n.Op.Reads == nil:
			read = bytes[v.ID]
		default:
			if read, err = eval(b, func() graph.Dim { return readBytes(n, i) }); err != nil {
				return p, err
			}
		}
		p.moved += float64(read)
	}
	for _, v := range n.Outputs {
		if v != nil {
			p.moved += float64(bytes[v.ID])
		}
	}
	return p, nil
}

// stepsOf is what the nodes of a node's body take.
func stepsOf(n *graph.Node, b *graph.Binding) (steps []profile.Work, err error) {
	bytes := make([]int64, len(n.Body.Values))
	for _, v := range n.Body.Values {
		if bytes[v.ID], err = eval(b, func() graph.Dim { return v.Bytes() }); err != nil {
			return nil, err
		}
	}
	for _, s := range n.Body.Nodes {
		if s.Op.View {
			continue
		}
		p, err := work(s, b, bytes)
		if err != nil {
			return nil, err
		}
		steps = append(steps, timed(s, p))
	}
	return steps, nil
}

// timed is what a profile is asked the price of.
func timed(n *graph.Node, p price) profile.Work {
	w := profile.Work{Kernel: n.Op.Class(), Type: typeOf(n), Calls: 1, Flops: p.flops, Moved: p.moved + p.inside, Makes: int64(len(n.Outputs)), Steps: p.steps}
	if n.Op.Calls != nil {
		w.Calls = n.Op.Calls(n)
	}
	return w
}

// typeOf is the type that a node computes in: that of its first input or output of floats.
func typeOf(n *graph.Node) graph.DType {
	for _, values := range [][]*graph.Value{n.Inputs, n.Outputs} {
		for _, v := range values {
			if v != nil && v.Type.IsFloat() {
				return v.Type
			}
		}
	}
	return graph.Invalid
}

// readBytes is what a node reads of an input, where that need not be all.
func readBytes(n *graph.Node, input int) graph.Dim {
	return n.Op.Reads(n, input).Mul(graph.Num(n.Inputs[input].Type.Size()))
}

// workSpace is the bytes that a node needs besides its outputs: what its kernels do where those run, else what the
// processor does.
func workSpace(n *graph.Node, b *graph.Binding, lowered bool) (int64, error) {
	if lowered {
		if l, err := graph.Lower(n, b, graph.PlanLimits); err != nil || l.Refused == "" {
			return l.Scratch, err
		}
	}
	if n.Op.Scratch == nil {
		return 0, nil
	}
	return eval(b, func() graph.Dim { return n.Op.Scratch(n) })
}

// eval evaluates a formula of an operator.
func eval(b *graph.Binding, of func() graph.Dim) (n int64, err error) {
	if failed := graph.Try(func() { n, err = b.Eval(of()) }); failed != nil {
		return 0, failed
	}
	return n, err
}
