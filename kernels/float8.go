package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// Float8Blocks stores activations in 8 bits: each block of 32 elements as float8e4m3fn
// scaled by a power of two, the least that keeps all of them in range. Scaling is exact, so
// the only rounding is that to e4m3's 4 significant bits. Infinities and NaNs become NaN.
var _ = define(graph.Op{
	Name:   "Float8Blocks",
	Domain: own,
	Doc:    "X in 8-bit floats, and a power of two for each 32 of them",
	In:     "X",
	Out:    "codes, powers",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		x := n.Inputs[0]
		n.Set(0, graph.Float8E4M3FN, x.Shape)
		n.Set(1, graph.Int8, bitmaskShape(x.Shape))
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { toBlocks(c, f32.Serial) },
	Fast:      func(c *graph.Call) { toBlocks(c, c.Parallel) },
	Lower:     lowerBlocks(false),
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems().Mul(graph.Num(3)) },
	Tests:     graph.Tests{Work: eachIn(0, 3)},
	Recompute: graph.Cheap,
	Role:      graph.RolePackFloat8,
	Samples:   []string{"f32[5,7]", "f32[64]", "f64[33]", "f16[3]", "bf16[40]", "f32[0]", "f32[]", "f32{1e-44, -1e38, 3e38, 0, 1}"},
})

var _ = define(graph.Op{
	Name:   "FromFloat8Blocks",
	Domain: own,
	Doc:    "decodes the output of Float8Blocks",
	In:     "codes, powers",
	Out:    "X",
	Attrs:  "to int=1",
	Infer: func(n *graph.Node) {
		codes, powers := n.Inputs[0], n.Inputs[1]
		to := graph.DType(n.Int("to"))
		switch {
		case int(to) != n.Int("to") || !to.IsFloat():
			n.Fail("to is %d; 1, 10, 11 and 16 are floats", n.Int("to"))
		case codes.Type != graph.Float8E4M3FN || powers.Type != graph.Int8:
			n.Fail("codes are %s and powers %s; f8e4m3fn and i8 expected", codes.Type, powers.Type)
		}
		n.Same(powers.Shape.Elems(), bitmaskShape(codes.Shape)[0], "powers and codes by 32")
		n.Set(0, to, codes.Shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { fromBlocks(c, f32.Serial) },
	Fast:      func(c *graph.Call) { fromBlocks(c, c.Parallel) },
	Lower:     lowerBlocks(true),
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachIn(0, 1)},
	Recompute: graph.Cheap,
	Role:      graph.RoleUnpackFloat8,
	Samples:   []string{"f8e4m3fn[5,7], i8[2]", "f8e4m3fn[64], i8[2]; to=11", "f8e4m3fn[3], i8[1]; to=16", "f8e4m3fn[0], i8[0]", "f8e4m3fn[], i8[1]"},
})

// The range of the scales' exponents: 2^−leastPower is still a finite float32, and with
// mostPower every float32 is in range.
const (
	leastPower = -127
	mostPower  = 119
)

// powerOf is the least exponent p for which most/2ᵖ is at most 1.75·2⁸, the greatest
// float8e4m3fn.
func powerOf(most float32) int {
	if most == 0 {
		return 0
	}
	frac, exp := math.Frexp(float64(most)) // in [½, 1)
	power := exp - 9
	if frac > 1.75/2 {
		power++
	}
	return max(leastPower, min(power, mostPower))
}

func toBlocks(c *graph.Call, par f32.Parallel) {
	x, codes, powers := c.In[0], c.Out[0], c.Out[1]
	const finite, absent = 0x7f800000, 0x7f
	par(powers.Len(), f32.Grain/bitsPerWord, func(lo, hi int) {
		var block [bitsPerWord]float32
		for k := lo; k < hi; k++ {
			at := k * bitsPerWord
			row := block[:min(bitsPerWord, x.Len()-at)]
			if x.Type == graph.Float32 {
				row = x.F32()[at : at+len(row)]
			} else {
				for i := range row {
					row[i] = float32(x.Float(at + i))
				}
			}
			most := uint32(0)
			for _, v := range row {
				if b := math.Float32bits(v) &^ (1 << 31); b > most && b < finite {
					most = b
				}
			}
			power := powerOf(math.Float32frombits(most))
			powers.Bytes[k] = byte(power)
			by, to := float32(math.Ldexp(1, -power)), codes.Bytes[at:at+len(row)]
			for i, v := range row {
				if b := math.Float32bits(v); b&^(1<<31) >= finite {
					to[i] = byte(b>>24&0x80) | absent
					continue
				}
				to[i] = graph.F32ToF8(graph.Float8E4M3FN, v*by, true)
			}
		}
	})
}

func fromBlocks(c *graph.Call, par f32.Parallel) {
	codes, powers, y := c.In[0], c.In[1], c.Out[0]
	table := graph.Floats8(graph.Float8E4M3FN)
	par(powers.Len(), f32.Grain/bitsPerWord, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			at, end := k*bitsPerWord, min((k+1)*bitsPerWord, codes.Len())
			by := math.Ldexp(1, int(int8(powers.Bytes[k])))
			if y.Type == graph.Float32 {
				to, by := y.F32()[at:end], float32(by)
				for i, b := range codes.Bytes[at:end] {
					to[i] = table[b] * by
				}
				continue
			}
			for i := at; i < end; i++ {
				y.SetFloat(i, float64(table[codes.Bytes[i]])*by)
			}
		}
	})
}

var float8Kernel = lower.Halved(lower.Shader("float8", "float8.comp"))

// float8Each is the number of elements that an invocation converts.
const float8Each = 4 * bitsPerWord

func lowerBlocks(back bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		numbers := l.In[0]
		if back {
			numbers = l.Out[0]
		}
		if numbers.Type != graph.Float32 {
			l.Refuse("numbers are %s; there is a kernel for f32", numbers.Type)
			return
		}
		n := numbers.Len()
		if n == 0 {
			return
		}
		buffers := []graph.Buffer{lower.Writes(0), lower.Writes(1), lower.Reads(0), lower.Unused(true)}
		if back {
			buffers = []graph.Buffer{lower.Reads(0), lower.Reads(1), lower.Unused(false), lower.Writes(0)}
		}
		for i, bytes := range []int{n, index.CeilDiv(n, bitsPerWord)} {
			buffers[i].Bytes = lower.WholeWords(int64(bytes))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: float8Kernel, Spec: []uint32{lower.OneIf(back)}, Push: lower.Words(l, n), Buffers: buffers, Groups: lower.InLine(l, index.CeilDiv(index.CeilDiv(n, float8Each), 64)),
		})
	}
}
