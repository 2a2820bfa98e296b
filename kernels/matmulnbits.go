package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// MatMulNBits is ONNX Runtime's product with a matrix of few bits, which language models are
// quantized to. It is rewritten into what unpacks the matrix, its numbers by blocks of a column,
// and a product.
var _ = define(graph.Op{
	Name:   "MatMulNBits",
	Domain: microsoft,
	Doc:    "A·Bᵀ, with B dequantized by blocks of its rows, + a bias",
	In:     "A, B, scales, zero_points?, g_idx?, bias?",
	Out:    "Y",
	Attrs:  "K int, N int, accuracy_level int=0, bits int=4, block_size int, weight_prepacked int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x, packed, scales, zeros := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3)
		bits, block, inner, rows := n.Int("bits"), n.Int("block_size"), n.Int("K"), n.Int("N")
		if bits != 2 && bits != 4 && bits != 8 || block < 8 || inner < 1 || rows < 1 {
			n.Fail("%d bits in blocks of %d for %d×%d numbers: bits are 2, 4 or 8, and blocks 8 numbers or more", bits, block, rows, inner)
		}
		if n.In(4) != nil || n.Int("weight_prepacked") != 0 {
			n.Fail("g_idx and weight_prepacked are not supported")
		}
		blocks := index.CeilDiv(inner, block)
		of := func(ns ...int) graph.Shape {
			var s graph.Shape
			for _, d := range ns {
				s = append(s, graph.Num(int64(d)))
			}
			return s
		}
		// few views numbers packed by rows as they are, each in its type, cut to width.
		few := func(v *graph.Value, width int) *graph.Value {
			bytes := index.CeilDiv(width*bits, 8)
			wantBytes(n, v, rows*bytes)
			v = reshape(b, v, of(rows, bytes))
			if bits < 8 {
				v = b.Op(own+".Unpack", graph.A{"bits": bits}, v)
			}
			if got, _ := v.Shape[1].Const(); int(got) > width {
				v = b.Op("Slice", nil, v, b.Ints(graph.Num(0)), b.Ints(graph.Num(int64(width))), b.Ints(graph.Num(1)))
			}
			return v
		}
		w := few(packed, blocks*block)
		n.Same(scales.Shape.Elems(), graph.Num(int64(rows*blocks)), "scales and blocks")
		scales = reshape(b, scales, of(rows, blocks))
		if zeros != nil && zeros.Type.IsFloat() {
			column := func(v *graph.Value) *graph.Value { return reshape(b, v, of(rows, blocks, 1)) }
			w = b.Op("Sub", nil, cast(b, reshape(b, w, of(rows, blocks, block)), scales.Type), column(zeros))
			w = reshape(b, b.Op("Mul", nil, w, column(scales)), of(rows, blocks*block))
		} else {
			if zeros == nil {
				middle := graph.NewTensor(w.Type, 1)
				middle.SetInt(0, 1<<(bits-1))
				zeros = b.Op("ConstantOfShape", graph.A{"value": middle}, shapeOf(b, scales))
			} else {
				zeros = few(zeros, blocks)
			}
			w = b.Op("DequantizeLinear", graph.A{"axis": 1, "block_size": block}, w, scales, zeros)
		}
		if blocks*block > inner {
			w = b.Op("Slice", nil, w, b.Ints(graph.Num(0)), b.Ints(graph.Num(int64(inner))), b.Ints(graph.Num(1)))
		}
		y := product{TransB: true, Alpha: 1}.node(b, x, w)
		if bias := n.In(5); bias != nil {
			y = b.Op("Add", nil, y, bias)
		}
		return []*graph.Value{y}
	},
	Samples: []string{"f32[2,3,20], u8[5,2,8], f32[10], u8[5], _, f32[5]; K=20 N=5 block_size=16"},
})

func wantBytes(n *graph.Node, v *graph.Value, count int) {
	if v.Type != graph.Uint8 {
		n.Fail("%q is %s; u8 expected", v.Name, v.Type)
	}
	n.Same(v.Shape.Elems(), graph.Num(int64(count)), "bytes of packed numbers")
}

var _ = define(graph.Op{
	Name:   "Unpack",
	Domain: own,
	Doc:    "the numbers of 4 or 2 bits that bytes hold, lowest bits first, along the last dim",
	In:     "X",
	Out:    "Y",
	Attrs:  "bits int=4",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		t := map[int]graph.DType{2: graph.Uint2, 4: graph.Uint4}[n.Int("bits")]
		if x.Type != graph.Uint8 || x.Rank() < 1 || t == graph.Invalid {
			n.Fail("%d bits are unpacked from %s%s; 2 or 4 from u8 with dims expected", n.Int("bits"), x.Type, x.Shape)
		}
		last := x.Rank() - 1
		n.Set(0, t, append(x.Shape[:last:last], x.Shape[last].Mul(graph.Num(int64(8/t.Bits())))))
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		x, y := c.In[0].Bytes, c.Out[0]
		bits := y.Type.Bits()
		for i := range y.Bytes {
			at := i * bits
			y.Bytes[i] = x[at/8] >> (at % 8) & (1<<bits - 1)
		}
	},
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Samples:   []string{"u8[2,3]", "u8[5]; bits=2", "u8[0,3]"},
})
