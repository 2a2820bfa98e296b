package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// Sequences exist only while a file is read: operators on sequences are evaluated then, and only
// operators on tensors remain. Lengths and positions must therefore be constant.

// maxSplits bounds the length of a sequence that a small hostile file can ask for.
const maxSplits = 1 << 12

var _ = define(graph.Op{
	Name:  "SplitToSequence",
	Doc:   "consecutive parts along an axis, as a sequence",
	In:    "input, split?",
	Out:   "output_sequence",
	Attrs: "axis int=0, keepdims int=1",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x := n.Inputs[0]
		axis := axisOf(n, n.Int("axis"), x.Rank())
		sizes := sequenceSizes(n, x.Shape[axis])
		if len(sizes) == 0 {
			return sequence(n, x.Type, nil)
		}
		parts := slices.Clone(b.Ops("Split", graph.A{"axis": axis}, len(sizes), x, b.Ints(sizes...)))
		if n.In(1) == nil && n.Int("keepdims") == 0 {
			for i, p := range parts {
				parts[i] = b.Op("Squeeze", nil, p, b.Ints(graph.Num(int64(axis))))
			}
		}
		return sequence(n, x.Type, parts)
	},
})

// sequenceSizes returns the sizes of the parts of a dim.
func sequenceSizes(n *graph.Node, d graph.Dim) []graph.Dim {
	each := graph.Num(1)
	if v := n.In(1); v != nil {
		sizes := knownDims(n, 1, "split")
		if v.Rank() > 0 {
			return sizes
		}
		each = sizes[0]
	}
	if size, ok := each.Const(); ok && size < 1 {
		n.Fail("split is %d; it must be at least 1", size)
	}
	count, ok := d.CeilDiv(each).Const()
	switch {
	case !ok:
		n.Fail("the sequence has %s parts; their number must be constant", d.CeilDiv(each))
	case count > maxSplits:
		n.Fail("the sequence has %d parts; at most %d are supported", count, maxSplits)
	case count == 0:
		return nil
	}
	sizes := slices.Repeat([]graph.Dim{each}, int(count))
	sizes[count-1] = d.Sub(each.Mul(graph.Num(count - 1)))
	return sizes
}

var _ = define(graph.Op{
	Name: "SequenceConstruct",
	Doc:  "a sequence of the inputs",
	In:   "inputs...",
	Out:  "output_sequence",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		if len(n.Inputs) == 0 {
			n.Fail("no inputs")
		}
		sameTypes(n)
		return sequence(n, n.Inputs[0].Type, n.Inputs)
	},
})

var _ = define(graph.Op{
	Name:  "SequenceEmpty",
	Doc:   "an empty sequence",
	Out:   "output",
	Attrs: "dtype int=1",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		t := graph.DType(n.Int("dtype"))
		if int(t) != n.Int("dtype") || !t.Valid() {
			n.Fail("there is no element type number %d", n.Int("dtype"))
		}
		return sequence(n, t, nil)
	},
})

var _ = define(graph.Op{
	Name: "SequenceInsert",
	Doc:  "a sequence with one more tensor, at a position or the end",
	In:   "input_sequence, tensor, position?",
	Out:  "output_sequence",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		s, x := sequenceOf(n), n.Inputs[1]
		if x.Type != s.Type {
			n.Fail("the tensor is %s, but the sequence has %s", x.Type, s.Type)
		}
		at := len(s.Seq)
		if n.In(2) != nil {
			at = positionOf(n, 2, len(s.Seq), len(s.Seq))
		}
		return sequence(n, s.Type, slices.Insert(slices.Clone(s.Seq), at, x))
	},
})

var _ = define(graph.Op{
	Name: "SequenceErase",
	Doc:  "a sequence without one tensor, at a position or the end",
	In:   "input_sequence, position?",
	Out:  "output_sequence",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		s := sequenceOf(n)
		at := len(s.Seq) - 1
		switch {
		case at < 0:
			n.Fail("the sequence is empty")
		case n.In(1) != nil:
			at = positionOf(n, 1, len(s.Seq), at)
		}
		return sequence(n, s.Type, slices.Delete(slices.Clone(s.Seq), at, at+1))
	},
})

var _ = define(graph.Op{
	Name: "SequenceAt",
	Doc:  "the tensor at a position of a sequence",
	In:   "input_sequence, position",
	Out:  "tensor",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		s := sequenceOf(n)
		return []*graph.Value{s.Seq[positionOf(n, 1, len(s.Seq), len(s.Seq)-1)]}
	},
})

var _ = define(graph.Op{
	Name: "SequenceLength",
	Doc:  "the number of tensors in a sequence",
	In:   "input_sequence",
	Out:  "length",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{b.Int(graph.Num(int64(len(sequenceOf(n).Seq))))}
	},
})

var _ = define(graph.Op{
	Name:  "ConcatFromSequence",
	Doc:   "concatenates the tensors of a sequence along an axis, which may be a new one",
	In:    "input_sequence",
	Out:   "concat_result",
	Attrs: "axis int, new_axis int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		s := sequenceOf(n)
		if !n.Has("axis") {
			n.Fail("attribute axis is missing")
		}
		if len(s.Seq) == 0 {
			n.Fail("the sequence is empty")
		}
		parts := slices.Clone(s.Seq)
		if n.Int("new_axis") != 0 {
			axis := b.Ints(graph.Num(int64(n.Int("axis"))))
			for i, p := range parts {
				parts[i] = b.Op("Unsqueeze", nil, p, axis)
			}
		}
		if axis := n.Int("axis"); axis == 0 && parts[0].Kind != graph.Ragged && parts[0].Rank() > 0 {
			return []*graph.Value{together(b, parts)}
		}
		return []*graph.Value{b.Op("Concat", graph.A{"axis": n.Int("axis")}, parts...)}
	},
})

func sequence(n *graph.Node, t graph.DType, vs []*graph.Value) []*graph.Value {
	return []*graph.Value{{Kind: graph.Sequence, Name: n.Name, Type: t, Seq: vs}}
}

// sequenceOf returns input 0, which must be a sequence.
func sequenceOf(n *graph.Node) *graph.Value {
	if n.Inputs[0].Kind != graph.Sequence {
		n.Fail("input 0 is not a sequence")
	}
	return n.Inputs[0]
}

// positionOf is the position in input i, in a sequence of the given length.
func positionOf(n *graph.Node, i, length, last int) int {
	at := knownInts(n, i, "position")
	if len(at) != 1 || at[0] < -int64(length) || at[0] > int64(last) {
		n.Fail("position %v is outside [%d, %d]", at, -length, last)
	}
	if at[0] < 0 {
		at[0] += int64(length)
	}
	return int(at[0])
}
