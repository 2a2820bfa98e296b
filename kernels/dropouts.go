package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// chance decides which elements a dropout keeps, as Dropout itself does: element i is kept
// if word i of the node's random stream is at or above the bound.
type chance struct {
	words stream
	bound uint64
	scale float64 // of kept elements
	all   bool    // keep all elements
}

// newChance reads ratio (nil: 0.5) and training mode. All elements are kept unless mode is
// present and true.
func newChance(c *graph.Call, ratio, mode *graph.Tensor) chance {
	if mode == nil || mode.Int(0) == 0 {
		return chance{scale: 1, all: true}
	}
	return trainingChance(c, ratio)
}

// trainingChance is for operators that are always in training.
func trainingChance(c *graph.Call, ratio *graph.Tensor) chance {
	r := 0.5
	if ratio != nil {
		r = ratio.Float(0)
	}
	if !(r >= 0 && r <= 1) {
		c.Node.Fail("ratio is %v, outside [0, 1]", r)
	}
	if r == 0 {
		return chance{scale: 1, all: true}
	}
	return chance{words: newStream(c, c.Node.Identity()), bound: uint64(math.RoundToEven(r * (1 << 32))), scale: 1 / (1 - r)}
}

// bitsPerWord is the number of elements that share a word of a bit mask.
const bitsPerWord = 32

// each calls f for every word of the mask of n elements: its first element, the number of
// elements, and a bit for each that is kept.
func (h chance) each(n int, par func(n, grain int, f func(lo, hi int)), f func(at, count int, stays uint32)) {
	par((n+bitsPerWord-1)/bitsPerWord, f32.Grain/bitsPerWord/8, func(lo, hi int) {
		var draws [bitsPerWord]uint32
		for ; lo < hi; lo++ {
			at := lo * bitsPerWord
			count := min(bitsPerWord, n-at)
			stays := uint32(math.MaxUint32) >> (bitsPerWord - count)
			if !h.all {
				h.words.fill(draws[:], lo*bitsPerWord/4)
				bits := uint32(0)
				for i, w := range draws {
					if uint64(w) >= h.bound {
						bits |= 1 << i
					}
				}
				stays &= bits
			}
			f(at, count, stays)
		}
	})
}

// keptMask writes count bools of a mask.
func keptMask(mask *graph.Tensor, at, count int, stays uint32) {
	for i := range count {
		mask.Bytes[at+i] = byte(stays >> i & 1)
	}
}

// keptBits writes one word of a bit mask.
func keptBits(mask *graph.Tensor, at, _ int, stays uint32) { mask.SetInt(at/bitsPerWord, int64(stays)) }

// bitmaskShape is the shape of a bit mask: a vector of words.
func bitmaskShape(s graph.Shape) graph.Shape {
	return graph.Shape{s.Elems().CeilDiv(graph.Num(bitsPerWord))}
}

// inferChance checks the inputs ratio and mode.
func inferChance(n *graph.Node, ratio, mode int) {
	wantType(n, ratio, isFloat, "a float")
	wantType(n, mode, isBool, "a bool")
	for _, i := range []int{ratio, mode} {
		if v := n.In(i); v != nil {
			n.Same(v.Shape.Elems(), graph.Num(1), "ratio and training_mode have one element each")
		}
	}
}

// sumMask is dropout(data + bias) + residual, with a mask of bools or bits.
type sumMask struct {
	name, doc string
	bits      bool
	biased    bool // has inputs bias and residual
	fuse      func(m *graph.Match) []*graph.Value
}

func (d sumMask) ratio() int {
	if d.biased {
		return 3
	}
	return 1
}

func defineSumMask(d sumMask, samples ...string) *graph.Op {
	in := "data, ratio?, training_mode?"
	if d.biased {
		in = "data, bias, residual?, ratio?, training_mode?"
	}
	op := graph.Op{
		Name:      d.name,
		Domain:    microsoft,
		Doc:       d.doc,
		In:        in,
		Out:       "output, mask?",
		Attrs:     "seed int",
		Infer:     d.infer,
		Grad:      d.grad,
		Fuse:      d.fuse,
		Eval:      func(c *graph.Call) { d.run(c, f32.Serial) },
		Fast:      func(c *graph.Call) { d.run(c, c.Parallel) },
		Lower:     lower.DrawnForms[[2]bool{d.bits, d.biased}].Lower,
		Flops:     perElement(18),
		Tests:     graph.Tests{Work: eachOut(18)},
		Recompute: graph.Cheap,
		InPlace:   []int{0},
		Random:    true,
		Samples:   samples,
	}
	if d.biased {
		op.InPlace = []int{0, 2}
	}
	return define(op)
}

func (d sumMask) infer(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	x := n.Inputs[0]
	if d.biased {
		for i, v := range n.Inputs[1:min(3, len(n.Inputs))] {
			if v != nil && v.Type != x.Type {
				n.Fail("input %d is %s, but the data is %s", i+1, v.Type, x.Type)
			}
		}
		biasFits(n, 0, 1)
		if r := n.In(2); r != nil {
			sameDims(n, r.Shape, x.Shape)
		}
	}
	inferChance(n, d.ratio(), d.ratio()+1)
	sameShape(n)
	if d.bits {
		n.Set(1, graph.Uint32, bitmaskShape(x.Shape))
	} else {
		n.Set(1, graph.Bool, x.Shape)
	}
}

// grad draws the mask again, like Dropout's.
func (d sumMask) grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := make([]*graph.Value, len(n.Inputs))
	dx[0] = dy[0]
	if on := n.In(d.ratio() + 1); on != nil && (on.Ints == nil || !on.Ints[0].Is(0)) {
		dx[0] = b.Op("memopt.DropoutGrad", graph.A{"seed": int64(n.Identity())}, dy[0], n.In(d.ratio()), on)
	}
	if d.biased {
		dx[1] = sumTo(b, dx[0], n.Inputs[1].Shape)
		if n.In(2) != nil {
			dx[2] = dy[0]
		}
	}
	return dx
}

func (d sumMask) run(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	x, y, mask := c.In[0], c.Out[0], output(c, 1)
	var bias, residual *graph.Tensor
	st := make([]int, len(x.Shape))
	if d.biased {
		bias, residual = c.In[1], input(c, 2)
		st = index.Broadcast(bias.Shape, x.Shape)
	}
	put := keptMask
	if d.bits {
		put = keptBits
	}
	h := newChance(c, input(c, d.ratio()), input(c, d.ratio()+1))
	h.each(x.Len(), par, func(at, count int, stays uint32) {
		if x.Type == graph.Float32 {
			dropRow(y.F32()[at:at+count], x.F32()[at:], bias, residual, st, x.Shape, at, stays, float32(h.scale))
		} else {
			index.Walk(x.Shape, at, at+count, func(i int, from []int) {
				v := 0.0
				if stays>>(i-at)&1 != 0 {
					v = x.Float(i)
					if bias != nil {
						v += bias.Float(from[0])
					}
					v *= h.scale
				}
				if residual != nil {
					v += residual.Float(i)
				}
				y.SetFloat(i, v)
			}, st)
		}
		if mask != nil {
			put(mask, at, count, stays)
		}
	})
}

// dropRow computes the float32 elements of one mask word, which begin at element at.
func dropRow(y, x []float32, bias, residual *graph.Tensor, st, shape []int, at int, stays uint32, scale float32) {
	var sum [bitsPerWord]float32
	row := sum[:len(y)]
	copy(row, x)
	if bias != nil {
		b := bias.F32()
		if last := len(shape) - 1; last >= 0 && len(b) == shape[last] && st[last] == 1 {
			// A vector as long as the last dim.
			k := at % len(b)
			for i := range row {
				row[i] += b[k]
				if k++; k == len(b) {
					k = 0
				}
			}
		} else {
			index.Walk(shape, at, at+len(row), func(i int, from []int) { row[i-at] += b[from[0]] }, st)
		}
	}
	var after []float32
	if residual != nil {
		after = residual.F32()[at : at+len(y)]
	}
	for i, v := range row {
		v = f32.Choose(stays>>i&1 != 0, v*scale, 0)
		if after != nil {
			v += after[i]
		}
		y[i] = v
	}
}
