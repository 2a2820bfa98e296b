// Package operators says what a graph's operators and shapes come to in numbers of a binding: bytes of values, work of nodes
// and the space that they work in. The planner's model asks it once for nodes that are alike; planner/check asks it again for
// the plan that comes of that. It is all that the two share.
package operators

import (
	"fmt"
	"math"
	"math/bits"

	"memopt/internal/graph"
	"memopt/planner/profile"
)

// Price is what a node takes, before it is weighed: operations, and bytes read and written.
type Price struct {
	Flops int64
	Moved float64 // a node may read what is large many times
	// Inside is bytes moved within a node, which profiles price. Costs by flops leave them out, as ONNX Runtime's do.
	Inside float64
	// Steps are what the nodes of a body take that run one after another.
	Steps []profile.Work
}

// BytesOf is what a value takes. A product of numbers is quicker than a formula, which says what is wrong with one that
// is too large.
func BytesOf(v *graph.Value, shape []int, b *graph.Binding) (int64, error) {
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

// Sizes is the shapes and the bytes of a graph's values.
func Sizes(g *graph.Graph, b *graph.Binding) (shapes [][]int, bytes []int64, err error) {
	shapes, bytes = make([][]int, len(g.Values)), make([]int64, len(g.Values))
	var last *graph.Value // of many values the shape is one slice
	for i, v := range g.Values {
		if last != nil && len(v.Shape) > 0 && len(v.Shape) == len(last.Shape) && &v.Shape[0] == &last.Shape[0] {
			shapes[i] = shapes[last.ID]
		} else if shapes[i], err = b.Shape(v.Shape); err != nil {
			return nil, nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
		last = v
		if bytes[i], err = BytesOf(v, shapes[i], b); err != nil {
			return nil, nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
	}
	return shapes, bytes, nil
}

// PriceOf is what a node takes, where values take bytes.
func PriceOf(n *graph.Node, b *graph.Binding, bytes []int64) (p Price, err error) {
	if n.Op.Flops != nil {
		if p.Flops, err = eval(b, func() graph.Dim { return n.Op.Flops(n) }); err != nil {
			return p, err
		}
	}
	if n.Op.Inside != nil {
		inside, err := eval(b, func() graph.Dim { return n.Op.Inside(n) })
		if err != nil {
			return p, err
		}
		p.Inside = float64(inside)
	}
	if n.Op.StepByStep {
		if p.Steps, err = stepsOf(n, b); err != nil {
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
		p.Moved += float64(read)
	}
	for _, v := range n.Outputs {
		if v != nil {
			p.Moved += float64(bytes[v.ID])
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
		p, err := PriceOf(s, b, bytes)
		if err != nil {
			return nil, err
		}
		steps = append(steps, Timed(s, p))
	}
	return steps, nil
}

// Timed is what a profile is asked the price of.
func Timed(n *graph.Node, p Price) profile.Work {
	w := profile.Work{Kernel: n.Op.Class(), Type: typeOf(n), Calls: 1, Flops: p.Flops, Moved: p.Moved + p.Inside, Makes: int64(len(n.Outputs)), Steps: p.Steps, Backward: n.Phase != graph.Forward}
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

// WorkSpace is the bytes that a node needs besides its outputs: what its kernels do where those run, else what the
// processor does.
func WorkSpace(n *graph.Node, b *graph.Binding, lowered bool) (int64, error) {
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
