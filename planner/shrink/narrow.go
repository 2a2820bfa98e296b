package shrink

import (
	"fmt"
	"math"

	"memopt/internal/graph"
)

// narrows are the types that integers are stored in, the smallest first.
var narrows = []struct {
	to          graph.DType
	least, most int64
}{
	{graph.Uint8, 0, math.MaxUint8}, {graph.Int8, math.MinInt8, math.MaxInt8},
	{graph.Uint16, 0, math.MaxUint16}, {graph.Int16, math.MinInt16, math.MaxInt16},
	{graph.Int32, math.MinInt32, math.MaxInt32},
}

// narrow makes a candidate of a value whose elements are integers of a known range, if a smaller
// type holds them.
func (p *proofs) narrow(v *graph.Value) (c Candidate, ok bool) {
	if v.Type.Size() == 1 || widened(v.Def) {
		return c, false
	}
	w, known := p.of(v)
	if !known {
		return c, false
	}
	for _, t := range narrows {
		if t.least <= w.Lo && w.Hi <= t.most && t.to.Size() < v.Type.Size() {
			c = Candidate{ID: v.Def.Op.Name + "+", Value: v, As: t.to, How: fmt.Sprintf("%s: all of them are from %d to %d (%s)", t.to, w.Lo, w.Hi, w.Why),
				Before: v.Bytes(), After: v.Shape.Elems().Mul(graph.Num(t.to.Size()))}
			return c, c.casts(p.uses, p.last) && len(c.Readers) > 0
		}
	}
	return c, false
}

// widened reports whether a node converts a smaller value to a larger type. Keeping its input and
// repeating the conversion is a cluster's compromise already.
func widened(n *graph.Node) bool {
	return len(n.Inputs) == 1 && n.Inputs[0].Type.Size() < n.Outputs[0].Type.Size() && n.Inputs[0].Shape.Equal(n.Outputs[0].Shape)
}

// proofs finds ranges of integers in a step. A value's range is the intersection of what its node,
// its type and its readers in the forward pass imply: an index out of range ends the step.
type proofs struct {
	uses  *graph.Uses
	last  []bool  // by value: whether it outlives the step
	found []proof // by value
}

type proof struct {
	graph.Whole
	known, done bool
}

func newProofs(uses *graph.Uses, last []bool) *proofs {
	return &proofs{uses, last, make([]proof, len(last))}
}

// of is the known range of a value; false if there is none.
func (p *proofs) of(v *graph.Value) (graph.Whole, bool) {
	if done := &p.found[v.ID]; done.done {
		return done.Whole, done.known
	}
	f := proof{done: true}
	learn := func(w graph.Whole, known bool) {
		switch {
		case !known || w.Lo > w.Hi:
		case !f.known:
			f.Whole, f.known = w, true
		default:
			if w.Hi-w.Lo < f.Hi-f.Lo {
				f.Why = w.Why
			}
			f.Lo, f.Hi = max(f.Lo, w.Lo), min(f.Hi, w.Hi)
		}
	}
	learn(typed(v.Type))
	learn(written(v))
	if n := v.Def; n != nil && n.Op.Whole != nil {
		learn(n.Op.Whole(n, int(v.Out), p.of))
	}
	p.needed(v, learn)
	p.found[v.ID] = f
	return f.Whole, f.known
}

// needed learns the ranges that readers of v, or of a view of it, require.
func (p *proofs) needed(v *graph.Value, learn func(graph.Whole, bool)) {
	for _, n := range p.uses.Of(v) {
		if n.Phase != graph.Forward {
			continue
		}
		if n.Op.View && n.Inputs[0] == v {
			p.needed(n.Outputs[0], learn)
		}
		for i, in := range n.Inputs {
			if in == v && n.Op.Index != nil {
				learn(n.Op.Index(n, i))
			}
		}
	}
}

// typed is the range of a type.
func typed(t graph.DType) (graph.Whole, bool) {
	if t == graph.Bool {
		return graph.Whole{Hi: 1, Why: "bools as numbers"}, true
	}
	for _, n := range narrows {
		if n.to == t {
			return graph.Whole{Lo: n.least, Hi: n.most, Why: fmt.Sprintf("made of %s", t)}, true
		}
	}
	return graph.Whole{}, false
}

// fewNumbers is the number of elements up to which a constant's data is read.
const fewNumbers = 1 << 16

// written is the range of a value whose elements are in the model.
func written(v *graph.Value) (w graph.Whole, known bool) {
	w = graph.Whole{Lo: math.MaxInt64, Hi: math.MinInt64, Why: "they are written in the model"}
	if v.Ints != nil {
		for _, d := range v.Ints {
			n, ok := d.Const()
			if !ok {
				return w, false
			}
			w.Lo, w.Hi = min(w.Lo, n), max(w.Hi, n)
		}
		return w, !v.Type.IsReal()
	}
	if v.Kind != graph.Const || v.Data == nil || v.Type.IsFloat8() || v.Data.Len() > fewNumbers*v.Type.Size() {
		return w, false
	}
	data, err := v.Data.Bytes()
	if err != nil {
		return w, false
	}
	x := &graph.Tensor{Type: v.Type, Bytes: data}
	for i := range len(data) / int(v.Type.Size()) {
		n := x.Int(i)
		if v.Type.IsFloat() {
			f := x.Float(i)
			if n = int64(f); !(math.Abs(f) <= 1<<53) || float64(n) != f || f == 0 && math.Signbit(f) {
				return w, false
			}
		}
		w.Lo, w.Hi = min(w.Lo, n), max(w.Hi, n)
	}
	return w, true
}
