package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// Cast converts element types. saturate applies to 8-bit floats: values out of range
// become the largest finite number if it is set, else infinity, or NaN where the type has
// no infinity. round_mode only concerns float8e8m0, which is not supported.
var _ = define(graph.Op{
	Name:  "Cast",
	Doc:   "the numbers in another element type",
	In:    "input",
	Out:   "output",
	Attrs: "to int, saturate int=1, round_mode string=up",
	Infer: func(n *graph.Node) {
		to := graph.DType(n.Int("to"))
		if int(to) != n.Int("to") || !to.Valid() {
			n.Fail("there is no element type number %d", n.Int("to"))
		}
		n.Set(0, to, n.Inputs[0].Shape)
		foldOne(n, func(d graph.Dim) (graph.Dim, bool) {
			if to != graph.Bool {
				return d, true
			}
			return truth(d)
		})
		foldNumbers(n, to)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if dy[0] == nil || !n.Inputs[0].Type.IsFloat() {
			return []*graph.Value{nil}
		}
		return []*graph.Value{cast(b, dy[0], n.Inputs[0].Type)}
	},
	Elementwise: true,
	NoOp:        func(*graph.Node) bool { return true }, // asked only if the type stays
	Simplify:    castPair,
	Whole:       sameNumbers(0),
	Eval:        func(c *graph.Call) { convert(c, 0, c.Out[0].Len()) },
	Fast:        func(c *graph.Call) { c.Parallel(c.Out[0].Len(), f32.Grain, func(lo, hi int) { convert(c, lo, hi) }) },
	Lower:       lowerCast,
	Flops:       perElement(1),
	Tests: graph.Tests{
		NotPointwise: "it changes types",
		Work:         eachOut(1),
		Pieces: []string{
			"f32[5001]; to=10",
			"bf16[5001]; to=1",
			"bool[5001]; to=1",
		},
	},
	Recompute: graph.Cheap,
	Role:      graph.RoleCast,
	Samples: []string{
		"f32[2,3]; to=11",
		"f32[]; to=11",
		"f64[5]; to=1",
		"f32[5]; to=10",
		"f16[5]; to=16",
		"f32[7]; to=7",
		"i64[5]; to=1",
		"i64[5]; to=9",
		"bool[5]; to=1",
		"f32[5]; to=9",
		"i32[5]; to=2",
		"f32[0,2]; to=6",
		"f32[3]; to=1",
		"f32[5]{0.1, 1000, -1e9, 1e-3, 0}; to=17",
		"f32[5]{0.1, 1000, -1e9, 1e-3, 0}; to=17 saturate=0",
		"f16[5]; to=19",
		"f8e4m3fn[5]; to=1",
		"f8e5m2[5]; to=18",
		"i32[3]; to=20",
	},
})

// castPair merges a cast of a cast, if the type between represents every number of the first.
func castPair(b *graph.Builder, n *graph.Node) []*graph.Value {
	inner := n.Inputs[0].Def
	if inner == nil || inner.Op != n.Op || !widens(inner.Inputs[0].Type, inner.Outputs[0].Type) {
		return nil
	}
	from, to := inner.Inputs[0], n.Outputs[0].Type
	if from.Type == to {
		return []*graph.Value{from}
	}
	return []*graph.Value{b.Op("Cast", castTo(n, to), from)}
}

// digits is the precision of float types in bits.
var digits = map[graph.DType]int{graph.BFloat16: 8, graph.Float16: 11, graph.Float32: 24, graph.Float64: 53}

// widens reports whether type to represents every number of type from.
func widens(from, to graph.DType) bool {
	if from == to || from == graph.Bool {
		return true
	}
	switch {
	case from.IsFloat8():
		return to.IsFloat()
	case to.IsFloat8():
		return false
	case from.IsFloat():
		// Neither of float16 and bfloat16 contains the other.
		return to.IsFloat() && digits[from] < digits[to] && !(from == graph.BFloat16 && to == graph.Float16)
	case to.IsFloat():
		lo, hi := intRange(from)
		return from != graph.Uint64 && hi <= 1<<digits[to] && lo >= -1<<digits[to]
	case to == graph.Bool || from == graph.Uint64:
		return false
	}
	lo, hi := intRange(from)
	least, most := intRange(to)
	return lo >= least && hi <= most
}

// foldNumbers computes the contents of the output if the input is a small constant of
// floats, or a float scalar computed from dims: exporters compute the bounds of an integer
// Range in floats.
func foldNumbers(n *graph.Node, to graph.DType) {
	v := n.Inputs[0]
	if v.Def != nil && v.Type.IsFloat() && (to == graph.Int64 || to == graph.Int32) {
		if f, ok := fractionOf(v); ok {
			foldEach(n, 1, func(int) (graph.Dim, bool) { return f.whole() })
		}
		return
	}
	if v.Kind != graph.Const || v.Data == nil || !v.Type.IsFloat() || to.IsFloat() || v.Data.Len() > graph.MaxInts*v.Type.Size() {
		return
	}
	data, err := v.Data.Bytes()
	if err != nil {
		n.Fail("input %q: %v", v.Name, err)
	}
	x := &graph.Tensor{Type: v.Type, Bytes: data}
	ds := make([]graph.Dim, len(data)/int(v.Type.Size()))
	for i := range ds {
		f := x.Float(i)
		switch {
		case !(math.Abs(f) < 1<<53): // NaN, or too large for a dim
			return
		case to == graph.Bool && f != 0:
			f = 1
		}
		ds[i] = graph.Num(int64(f))
	}
	n.SetInts(0, ds)
}

// cast builds a Cast of v, or returns v if it has the type already.
func cast(b *graph.Builder, v *graph.Value, to graph.DType) *graph.Value {
	if v.Type == to {
		return v
	}
	return b.Op("Cast", graph.A{"to": int(to)}, v)
}

// castTo returns the attributes of a Cast to a type, with n's saturate.
func castTo(n *graph.Node, to graph.DType) graph.A {
	a := graph.A{"to": int(to)}
	if to.IsFloat8() && n.Int("saturate") == 0 {
		a["saturate"] = 0
	}
	return a
}

// truth is d != 0 as 0 or 1, if that is provable.
func truth(d graph.Dim) (graph.Dim, bool) {
	order, known := d.Compare(graph.Num(0))
	if order != 0 {
		order = 1
	}
	return graph.Num(int64(order)), known
}

// convert converts elements [lo, hi).
func convert(c *graph.Call, lo, hi int) {
	x, y := c.In[0], c.Out[0]
	switch {
	case x.Type == y.Type:
		size := int(x.Type.Size())
		copy(y.Bytes[lo*size:hi*size], x.Bytes[lo*size:])
	case x.Type == graph.Float32 && isHalf(y.Type):
		round := graph.F32ToF16
		if y.Type == graph.BFloat16 {
			round = graph.F32ToBF16
		}
		to := graph.View[uint16](y)[lo:hi]
		for i, v := range x.F32()[lo:hi] {
			to[i] = round(v)
		}
	case y.Type == graph.Float32 && isHalf(x.Type):
		widen := f32.WidenHalf
		if x.Type == graph.BFloat16 {
			widen = f32.WidenBrain
		}
		to := y.F32()[lo:hi]
		for i, h := range graph.View[uint16](x)[lo:hi] {
			to[i] = widen(h)
		}
	case y.Type == graph.Float32 && x.Type.IsFloat8():
		table, to := graph.Floats8(x.Type), y.F32()[lo:hi]
		for i, b := range x.Bytes[lo:hi] {
			to[i] = table[b]
		}
	case y.Type.IsFloat8():
		saturate := c.Node.Int("saturate") != 0
		for i := lo; i < hi; i++ {
			y.Bytes[i] = graph.F32ToF8(y.Type, float32(x.Float(i)), saturate)
		}
	case y.Type == graph.Bool || y.Type.IsReal():
		for i := lo; i < hi; i++ {
			y.SetFloat(i, x.Float(i))
		}
	case x.Type.IsReal():
		to := y.Type
		if to.Bits() < 8 {
			to = graph.Int64 // ONNX keeps the low bits
		}
		for i := lo; i < hi; i++ {
			y.SetInt(i, toInt(to, x.Float(i)))
		}
	default:
		for i := lo; i < hi; i++ {
			y.SetInt(i, x.Int(i))
		}
	}
}

// toInt truncates toward zero. ONNX leaves values out of range undefined; here they
// saturate and NaN becomes 0, on every machine.
func toInt(t graph.DType, x float64) int64 {
	lo, hi := intRange(t)
	switch {
	case x != x:
		return 0
	case t == graph.Uint64 && x >= math.MaxUint64:
		return -1
	case t == graph.Uint64 && x >= math.MaxInt64:
		return int64(uint64(x))
	case x <= float64(lo):
		return lo
	case x >= float64(hi):
		return hi
	}
	return int64(x)
}

// lowerCast picks the expression by input and output type.
var lowerCast = func() func(*graph.Lowering) {
	forms := map[[2]graph.DType]func(*graph.Lowering){}
	for from, to := range map[[2]graph.DType]string{
		{graph.Float32, graph.Float32}: "a",
		{graph.Int64, graph.Float32}:   "float(a)",
		{graph.Int32, graph.Float32}:   "float(a)",
		{graph.Bool, graph.Float32}:    "float(a)",
		{graph.Float32, graph.Bool}:    "uint(a != 0)",
		{graph.Int64, graph.Bool}:      "uint(a != 0)",
		{graph.Bool, graph.Int64}:      "int64_t(a)",
		{graph.Int32, graph.Int64}:     "int64_t(a)",
		{graph.Float32, graph.Int64}:   "isnan(a) ? int64_t(0) : a >= 9.223372e18 ? 0x7fffffffffffffffl : a <= -9.223372e18 ? -0x7fffffffffffffffl - 1l : int64_t(a)",
		{graph.Float32, graph.Int32}:   "isnan(a) ? 0 : a >= 2147483648.0 ? 0x7fffffff : a <= -2147483648.0 ? -0x7fffffff - 1 : int(a)",
		{graph.Float32, graph.Uint8}:   "isnan(a) ? 0u : uint(clamp(a, 0.0, 255.0))",
		{graph.Float32, graph.Int8}:    "isnan(a) ? 0 : int(clamp(a, -128.0, 127.0))",
		{graph.Uint8, graph.Float32}:   "float(a)",
		{graph.Int8, graph.Float32}:    "float(a)",
		{graph.Uint8, graph.Int64}:     "int64_t(a)",
		{graph.Uint8, graph.Int32}:     "int(a)",
		{graph.Int8, graph.Int32}:      "a",
		{graph.Bool, graph.Uint8}:      "a",
		{graph.Uint8, graph.Bool}:      "uint(a != 0)",
		{graph.Int32, graph.Bool}:      "uint(a != 0)",
		{graph.Int32, graph.Int32}:     "a",
		{graph.Int64, graph.Int64}:     "a",
		{graph.Int64, graph.Int32}:     "int(a)",
		{graph.Bool, graph.Bool}:       "a",
		{graph.Bool, graph.Int32}:      "int(a)",
	} {
		forms[from] = lower.PointwiseOf(to, nil, from[1], from[0], from[0], from[0])
	}
	return lower.Pick(forms, func(l *graph.Lowering) [2]graph.DType { return [2]graph.DType{l.In[0].Type, l.Out[0].Type} })
}()
