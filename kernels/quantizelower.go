package kernels

import "memopt/memopt/graph"

var quantizeKernel = halved(shader("quantize", "quantize.comp"))

// The passes of the kernel.
const (
	quantizeTo, quantizeBack, quantizeGrad = 0, 1, 2
)

// quantizeRounds says to what the quotient is rounded first.
var quantizeRounds = map[graph.DType]uint32{graph.Float32: 0, graph.Float16: 1, graph.BFloat16: 2}

// lowerQuantized appends a pass; the numbers' buffers and the operands of the
// integers, scales and zero points are told.
func lowerQuantized(l *graph.Lowering, pass uint32, numbers, integers *graph.Operand, scale, zero int, buffers [6]*graph.Buffer) {
	t, round := integers.Type, graph.Float32
	if pass == quantizeTo {
		if round = l.Node.Inputs[1].Type; l.Node.Int("precision") != 0 {
			round = graph.DType(l.Node.Int("precision"))
		}
	}
	rounds, known := quantizeRounds[round]
	if numbers.Type != graph.Float32 || l.In[scale].Type != graph.Float32 || t.Size() > 4 || t == graph.Uint32 || t.IsFloat8() || !known {
		l.Refuse("there is no kernel for %s as %s by scales that are %s", numbers.Type, t, round)
		return
	}
	n, scales, shape := numbers.Len(), l.In[scale].Len(), integers.Shape
	if n == 0 {
		if pass == quantizeGrad {
			lowerFill(l, 0, 0)
		}
		return
	}
	places, after, block := 1, 1, l.Node.Int("block_size")
	if scales > 1 || block > 0 {
		_, places, after = around(shape, axisOf(l.Node, l.Node.Int("axis"), len(shape)))
	}
	var all []graph.Buffer
	for i, b := range buffers {
		switch {
		case b == nil:
			all = append(all, unused(i == 0 || i == 5))
		case i >= 3:
			o := boundOperand(l, *b)
			b.Bytes = wholeWords(int64(o.Len()) * o.Type.Size())
			all = append(all, *b)
		default:
			all = append(all, *b)
		}
	}
	bits := int(8 * t.Size())
	local, groups := 64, ceilDiv(n, 64)
	switch pass {
	case quantizeTo:
		groups = ceilDiv(ceilDiv(n, 32/bits), 64)
	case quantizeGrad:
		local, groups = l.Limits.Subgroup, scales
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: quantizeKernel, Spec: []uint32{uint32(local), pass, uint32(bits), oneIf(t == graph.Int8 || t == graph.Int16), oneIf(loweredIn(l, zero) != nil), rounds},
		Push: words(l, n, scales, places, after, block, ceilDiv(places, max(1, block))), Buffers: all, Groups: inLine(l, groups),
	})
}

// optionalIn is an optional input's buffer.
func optionalIn(l *graph.Lowering, i int) *graph.Buffer {
	if loweredIn(l, i) == nil {
		return nil
	}
	return new(reads(i))
}

func lowerQuantize(l *graph.Lowering) {
	lowerQuantized(l, quantizeTo, l.In[0], l.Out[0], 1, 2, [6]*graph.Buffer{1: new(reads(0)), 2: new(reads(1)), 3: optionalIn(l, 2), 5: new(writes(0))})
}

func lowerDequantize(l *graph.Lowering) {
	lowerQuantized(l, quantizeBack, l.Out[0], l.In[0], 1, 2, [6]*graph.Buffer{0: new(writes(0)), 2: new(reads(1)), 3: optionalIn(l, 2), 4: new(reads(0))})
}

func lowerDequantizeGrad(l *graph.Lowering) {
	lowerQuantized(l, quantizeGrad, l.In[0], l.In[1], 2, 3, [6]*graph.Buffer{0: new(writes(0)), 1: new(reads(0)), 2: new(reads(2)), 3: optionalIn(l, 3), 4: new(reads(1))})
}
