package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// QuantizeLinear has one scale for all elements, one for each index of an axis, or one for each
// block of block_size indices of it; zero points have the shape of the scales. Arithmetic uses
// the scale's type, or attribute precision. Quotients are rounded to the nearest even integer
// and saturate; for 8-bit floats they are not rounded to integers, and attribute saturate
// applies.
var _ = defineTwice(graph.Op{
	Name:  "QuantizeLinear",
	Doc:   "y = saturate(round(x / y_scale) + y_zero_point)",
	In:    "x, y_scale, y_zero_point?",
	Out:   "y",
	Attrs: "axis int=1, block_size int=0, output_dtype int=0, precision int=0, saturate int=1",
	Infer: func(n *graph.Node) {
		x, scale, zero := n.Inputs[0], n.Inputs[1], n.In(2)
		wantType(n, 0, floatOrInt32, "floats or int32")
		wantType(n, 1, floatOrInt32, "floats or int32")
		if p := graph.DType(n.Int("precision")); n.Int("precision") != 0 && (int(p) != n.Int("precision") || !p.IsFloat()) {
			n.Fail("precision is %d; 1, 10, 11 and 16 are floats", n.Int("precision"))
		}
		t := graph.Uint8
		if n.Int("output_dtype") != 0 {
			t = graph.DType(n.Int("output_dtype"))
			if int(t) != n.Int("output_dtype") {
				t = graph.Invalid
			}
		}
		if zero != nil {
			if n.Int("output_dtype") != 0 && zero.Type != t {
				n.Fail("y_zero_point is %s, but output_dtype is %d", zero.Type, n.Int("output_dtype"))
			}
			t = zero.Type
		}
		if !slices.Contains(quantized, t) {
			n.Fail("quantization to %s is not supported; only to integers of at most 16 bits and 8-bit floats", t)
		}
		checkScale(n, x.Shape, scale, zero)
		n.Set(0, t, x.Shape)
	},
	NoGrad: true,
	Eval:   func(c *graph.Call) { quantize(c, f32.Serial) },
	Fast:   func(c *graph.Call) { quantize(c, c.Parallel) },
	Lower:  lowerQuantize,
	Flops:  perElement(4),
	Tests:  graph.Tests{Work: eachOut(4)},

	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3], f32[]{0.1}",
		"f32[2,3], f32[]{0.01}, i8[]{3}",
		"f32[2,3,4], f32{0.1,0.02,0.5}, u8{128,0,7}",
		"f32[2,3], f32{0.1,0.2}, i16{0,1000}; axis=0",
		"f32[2,3], f32{0.1,0.2}, u16{0,1000}; axis=-2",
		"f32[2,5], f32[2,3]>0, i8[2,3]; axis=1 block_size=2",
		"f32[5], f32[2]>0; axis=0 block_size=4 output_dtype=3",
		"f32[5], f32{0.3}",
		"f16[2,3], f16[]{0.1}, u8[]{3}",
		"f32[2,3], f16[]{0.1}; precision=1",
		"i32[2,3], f32[]{0.5}, i8[]{3}",
		"f32[0,3], f32[]{0.1}",
		"f32[2,3], f32[]{0.1}, f8e4m3fn[]{0}",
		"f32[2,3], f32{0.1,0.001}; axis=0 output_dtype=19 saturate=0",
		"f32[2,5], f32[2,3]>0, i4[2,3]; axis=1 block_size=2",
		"f32[2,3], f32[]{0.1}, u2[]{1}",
	},
})

var quantized = []graph.DType{graph.Int2, graph.Uint2, graph.Int4, graph.Uint4, graph.Int8, graph.Uint8, graph.Int16, graph.Uint16, graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ}

func floatOrInt32(t graph.DType) bool { return t.IsFloat() || t == graph.Int32 }

// checkScale checks that scales and zero points fit the data.
func checkScale(n *graph.Node, x graph.Shape, scale, zero *graph.Value) {
	block := n.Int("block_size")
	switch {
	case block < 0:
		n.Fail("block_size is %d, but must not be negative", block)
	case block > 0:
		if scale.Rank() != len(x) {
			n.Fail("scales have rank %d, but with block_size they need the data's, %d", scale.Rank(), len(x))
		}
		axis := axisOf(n, n.Int("axis"), len(x))
		for i, d := range x {
			if i == axis {
				d = d.CeilDiv(graph.Num(int64(block)))
			}
			n.Same(scale.Shape[i], d, "a dim of the scales")
		}
	case scale.Shape.Elems().Is(1) && scale.Rank() <= 1:
	case scale.Rank() != 1:
		n.Fail("scales have shape %s; a single one, or one for each index of the axis expected", scale.Shape)
	default:
		n.Same(scale.Shape[0], x[axisOf(n, n.Int("axis"), len(x))], "scales for the axis")
	}
	if zero != nil && !zero.Shape.Equal(scale.Shape) && !(zero.Shape.Elems().Is(1) && scale.Shape.Elems().Is(1)) {
		if zero.Rank() != scale.Rank() {
			n.Fail("zero points have shape %s, but scales %s", zero.Shape, scale.Shape)
		}
		for i, d := range zero.Shape {
			n.Same(d, scale.Shape[i], "dims of zero points and scales")
		}
	}
}

// scaleIndex returns a function from elements of the data to their scale.
func scaleIndex(n *graph.Node, x, scale *graph.Tensor) func(i int) int {
	if scale.Len() == 1 && n.Int("block_size") == 0 {
		return func(int) int { return 0 }
	}
	_, places, after := index.Around(x.Shape, axisOf(n, n.Int("axis"), len(x.Shape)))
	if block := n.Int("block_size"); block > 0 {
		blocks := (places + block - 1) / block
		return func(i int) int {
			return (i/(after*places)*blocks+i/after%places/block)*after + i%after
		}
	}
	return func(i int) int { return i / after % places }
}

func quantize(c *graph.Call, par f32.Parallel) {
	x, scale, zero, y := c.In[0], c.In[1], input(c, 2), c.Out[0]
	t := scale.Type
	if p := c.Node.Int("precision"); p != 0 {
		t = graph.DType(p)
	}
	at, saturate := scaleIndex(c.Node, x, scale), c.Node.Int("saturate") != 0
	par(y.Len(), f32.Grain/8, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k := at(i)
			q := roundTo(t, x.Float(i)/scale.Float(k))
			if !y.Type.IsFloat8() {
				q = math.RoundToEven(q)
			}
			if zero != nil {
				q += zero.Float(k)
			}
			if y.Type.IsFloat8() {
				y.Bytes[i] = graph.F32ToF8(y.Type, float32(q), saturate)
				continue
			}
			y.SetInt(i, toInt(y.Type, q))
		}
	})
}

// roundTo rounds to a float type; to float32 for other types, whose arithmetic is float32.
func roundTo(t graph.DType, x float64) float64 {
	switch t {
	case graph.Float64:
		return x
	case graph.Float16:
		return float64(graph.F16ToF32(graph.F32ToF16(float32(x))))
	case graph.BFloat16:
		return float64(math.Float32frombits(uint32(graph.F32ToBF16(float32(x))) << 16))
	}
	return float64(float32(x))
}

func lowerQuantize(l *graph.Lowering) {
	lowerQuantized(l, quantizeTo, l.In[0], l.Out[0], 1, 2, [6]*graph.Buffer{1: new(lower.Reads(0)), 2: new(lower.Reads(1)), 3: optionalIn(l, 2), 5: new(lower.Writes(0))})
}

var quantizeKernel = lower.Halved(lower.Shader("quantize", "quantize.comp"))

// The passes of quantize.comp.
const (
	quantizeTo, quantizeBack, quantizeGrad = 0, 1, 2
)

// quantizeRounds is the kernel's number of the type in which quotients are computed.
var quantizeRounds = map[graph.DType]uint32{graph.Float32: 0, graph.Float16: 1, graph.BFloat16: 2}

// lowerQuantized appends a pass over numbers (float32) and integers; scale and zero are input
// numbers.
func lowerQuantized(l *graph.Lowering, pass uint32, numbers, integers *graph.Operand, scale, zero int, buffers [6]*graph.Buffer) {
	t, round := integers.Type, graph.Float32
	if pass == quantizeTo {
		if round = l.Node.Inputs[1].Type; l.Node.Int("precision") != 0 {
			round = graph.DType(l.Node.Int("precision"))
		}
	}
	rounds, known := quantizeRounds[round]
	if numbers.Type != graph.Float32 || l.In[scale].Type != graph.Float32 || t.Size() > 4 || t == graph.Uint32 || t.IsFloat8() || !known || pass == quantizeTo && t.Bits() < 8 {
		l.Refuse("there is no kernel for %s and %s with %s arithmetic", numbers.Type, t, round)
		return
	}
	n, scales, shape := numbers.Len(), l.In[scale].Len(), integers.Shape
	if n == 0 {
		if pass == quantizeGrad {
			lower.Fill(l, 0, 0)
		}
		return
	}
	places, after, block := 1, 1, l.Node.Int("block_size")
	if scales > 1 || block > 0 {
		_, places, after = index.Around(shape, axisOf(l.Node, l.Node.Int("axis"), len(shape)))
	}
	var all []graph.Buffer
	for i, b := range buffers {
		switch {
		case b == nil:
			all = append(all, lower.Unused(i == 0 || i == 5))
		case i >= 3:
			o := lower.BoundOperand(l, *b)
			b.Bytes = lower.WholeWords(int64(o.Len()) * o.Type.Size())
			all = append(all, *b)
		default:
			all = append(all, *b)
		}
	}
	bits := int(8 * t.Size())
	least, _ := intRange(t)
	local, groups := 64, index.CeilDiv(n, 64)
	switch pass {
	case quantizeTo:
		groups = index.CeilDiv(index.CeilDiv(n, 32/bits), 64)
	case quantizeGrad:
		local, groups = l.Limits.Subgroup, scales
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: quantizeKernel, Spec: []uint32{uint32(local), pass, uint32(bits), lower.OneIf(bits < 32 && least < 0), lower.OneIf(lower.In(l, zero) != nil), rounds},
		Push: lower.Words(l, n, scales, places, after, block, index.CeilDiv(places, max(1, block))), Buffers: all, Groups: lower.InLine(l, groups),
	})
}

// optionalIn is the buffer of input i, or nil if it is omitted.
func optionalIn(l *graph.Lowering, i int) *graph.Buffer {
	if lower.In(l, i) == nil {
		return nil
	}
	return new(lower.Reads(i))
}

// defineTwice defines an operator of ONNX and the same of ONNX Runtime's own domain, which has it, too:
// there it took 16-bit integers before ONNX's did.
func defineTwice(op graph.Op) *graph.Op {
	own := op
	own.Domain = microsoft
	define(own)
	return define(op)
}
