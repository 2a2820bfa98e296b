package kernels

import (
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// TestMovedContents: what is known of a shape stays known when it is moved.
func TestMovedContents(t *testing.T) {
	const given = `
x f32[batch, seq, 12, 64] = input
s i64[4] = const {batch, seq, 12, 64}
m i64[2, 2] = const {batch, seq, 12, 64}
p i64[] = const {past}
i0 i64[] = const {0}
i1 i64[1] = const {1}
i2 i64[1] = const {2}
i02 i64[2] = const {0, 2}
i22 i64[2] = const {2, 2}
i31 i64[2] = const {-1, 1}
minus i64[1] = const {-1}
far i64[1] = const {9223372036854775807}
b bool[4] = const {1, 0, 1, 0}
u i64[1, 1] = const {2}
b1 bool[1] = const {1}
c1 i64[1] = const {past}
axis i64[1] = const {0}
u1 i64[1] = const {past + 1}
less i64[2] = const {-100, -20}
vast i64[2] = const {4611686018427387905, 4}
`
	for _, c := range []struct{ node, want string }{
		{"Shape(x)", "batch, seq, 12, 64"},
		{"Shape(x) start=-3 end=-1", "seq, 12"},
		{"Size(x)", "768*batch*seq"},
		{"Gather(s, i0)", "batch"},
		{"Gather(s, i31)", "64, seq"},
		{"Gather(m, i1) axis=1", "seq, 64"},
		{"Gather(s, i22)", "12, 12"},
		{"Slice(s, i1, far)", "seq, 12, 64"},
		{"Slice(s, minus, far)", "64"},
		{"Slice(s, i0, i0)", ""},
		{"Slice(s, minus, i1, axis, minus)", "64, 12"},
		{"Concat(s, c1, u1) axis=0", "batch, seq, 12, 64, past, past + 1"},
		{"Concat(m, m) axis=1", "batch, seq, batch, seq, 12, 64, 12, 64"},
		{"Transpose(m)", "batch, 12, seq, 64"},
		{"Unsqueeze(p, axis)", "past"},
		{"Squeeze(c1, axis)", "past"},
		{"Squeeze(c1)", "past"},
		{"Flatten(m) axis=0", "batch, seq, 12, 64"},
		{"Reshape(m, i22)", "batch, seq, 12, 64"},
		{"Reshape(s, c1)", "unknown"}, // past is 4, if that is so
		{"Expand(c1, i2)", "past, past"},
		{"Tile(c1, i2)", "past, past"},
		{"GatherND(m, i02)", "error"}, // reaches beyond
		{"GatherND(m, i31)", "64"},
		{"GatherND(s, u)", "12"},
		{"GatherElements(s, i31)", "64, seq"},
		{"ScatterElements(s, i1, c1)", "batch, past, 12, 64"},
		{"ScatterND(s, u, c1)", "batch, seq, past, 64"},
		{"ScatterElements(s, i1, c1) reduction=\"add\"", "unknown"},
		{"Pad(s, i02)", "batch, seq, 12, 64, 0, 0"},
		{"Pad(c1, i31)", "0"},
		{"Pad(c1, less)", "error"},
		{"Expand(c1, vast)", "error"}, // 2⁶⁴ + 4 elements are no four
		{"Trilu(m)", "batch, seq, 0, 64"},
		{"NonZero(b)", "0, 2"},
		{"NonZero(s)", "0, 1, 2, 3"},
		{"NonZero(x)", "error"},
		{"OneHot(i0, i2, s)", "error"},
		{"OneHot(i1, i2, i02)", "0, 2"},
	} {
		inferred(t, given, c.node, c.want, knownContents)
	}
}

// TestMovedShapes: shapes that depend on contents are formulas, and as simple
// as they can be.
func TestMovedShapes(t *testing.T) {
	const given = `
x f32[batch, seq, 6] = input
mask f32[1, 1, 1024] = input
n1 i64[1] = const {-1}
n3 i64[1] = const {-3}
zero i64[1] = const {0}
one i64[1] = const {1}
two i64[1] = const {2}
five i64[1] = const {5}
seq i64[1] = const {seq}
nseq i64[1] = const {-seq}
less i64[1] = const {seq - 1}
more i64[1] = const {seq + 1}
odd i64[1] = const {seq - 5}
far i64[1] = const {9223372036854775807}
far32 i64[1] = const {2147483647}
back i64[1] = const {-9223372036854775807}
halves i64[2] = const {2, 4}
three i64[3] = const {1, seq, 1}
grow i64[6] = const {0, 1, 0, 0, 2, 0}
four i64[] = const {4}
onoff f32[2] = const {0, 1}
`
	for _, c := range []struct{ node, want string }{
		{"Slice(x, zero, seq, one)", "[batch, seq, 6]"},
		{"Slice(x, zero, far, one)", "[batch, seq, 6]"},
		{"Slice(x, zero, far32, one)", "[batch, seq, 6]"},
		{"Slice(x, zero, n1, one)", "[batch, seq - 1, 6]"},
		{"Slice(x, one, far, one)", "[batch, seq - 1, 6]"},
		{"Slice(x, n1, far, one)", "[batch, 1, 6]"},
		{"Slice(x, less, seq, one)", "[batch, 1, 6]"},
		{"Slice(x, nseq, far, one)", "[batch, seq, 6]"},
		{"Slice(x, zero, more, one)", "[batch, seq, 6]"},
		{"Slice(x, n3, far, one)", "[batch, min(3, seq), 6]"},
		{"Slice(x, five, far, one)", "[batch, max(0, seq - 5), 6]"},
		{"Slice(x, odd, far, one)", "[batch, min(5, seq), 6]"},
		{"Slice(x, zero, five, one)", "[batch, min(5, seq), 6]"},
		{"Slice(x, zero, far, one, two)", "[batch, ceil(seq/2), 6]"},
		{"Slice(x, n1, back, one, n1)", "[batch, seq, 6]"},
		{"Slice(x, far, back, one, n1)", "[batch, seq, 6]"},
		{"Slice(x, n1, zero, one, n1)", "[batch, seq - 1, 6]"},
		{"Slice(x, two, one, n1)", "[batch, seq, 0]"},
		{"Slice(mask, zero, seq, two)", "[1, 1, min(1024, seq)]"},
		{"Gather(x, seq) axis=2", "[batch, seq, 1]"},
		{"Gather(x, halves) axis=-1", "[batch, seq, 2]"},
		{"Expand(mask, three)", "[1, seq, 1024]"},
		{"Tile(x, three)", "[batch, seq**2, 6]"},
		{"Pad(x, grow)", "[batch, seq + 3, 6]"},
		{"Pad(x, two, _, one)", "error"},
		{"Concat(x, x) axis=1", "[batch, 2*seq, 6]"},
		{"Concat(x, mask) axis=1", "error"},
		{"Transpose(x)", "[6, seq, batch]"},
		{"Transpose(x) perm=[0, 0, 1]", "error"},
		{"Flatten(x) axis=2", "[batch*seq, 6]"},
		{"Unsqueeze(x, n1)", "[batch, seq, 6, 1]"},
		{"Squeeze(mask)", "[1024]"},
		{"Squeeze(x, two)", "error"},
		{"TopK(x, five)", "error"}, // two outputs
		{"ArgMax(x) axis=-1 keepdims=0", "[batch, seq]"},
		{"OneHot(seq, four, onoff)", "[1, 4]"},
	} {
		inferred(t, given, c.node, c.want, knownShape)
	}
}

func TestSplitShapes(t *testing.T) {
	for _, c := range []struct{ node, want string }{
		{"a, b = Split(x) axis=1", "[batch, ceil(seq/2)] [batch, -ceil(seq/2) + seq]"},
		{"a, b = Split(x) axis=-1 num_outputs=3", "error"},
		{"a, b, c = Split(y) axis=1", "[batch, 16] [batch, 16] [batch, 16]"},
		{"a, b, c = Split(z) num_outputs=3", "[3] [3] [1]"},
		{"a, b, c, d = Split(five)", "error"}, // 2, 2, 2 are too many
		{"a, b = Split(x, at) axis=1", "[batch, seq - 1] [batch, 1]"},
	} {
		g, err := graph.Parse(Library, `
x f32[batch, seq] = input
y f32[batch, 48] = input
z f32[7] = input
five f32[5] = input
at i64[2] = const {seq - 1, 1}
`+c.node+" @sample\n")
		got := "error"
		if err == nil {
			var shapes []string
			for _, v := range g.Nodes[0].Outputs {
				shapes = append(shapes, v.Shape.String())
			}
			got = strings.Join(shapes, " ")
		}
		if got != c.want {
			t.Errorf("%s has shapes %s, not %s (%v)", c.node, got, c.want, err)
		}
	}
}

// TestIndexOutOfRange: a bad index in the data is an error of the node.
func TestIndexOutOfRange(t *testing.T) {
	for _, name := range []string{"Gather", "GatherElements", "ScatterElements"} {
		op := Library.Find("", name, 0)
		x := graph.NewTensor(graph.Float32, 3)
		idx := graph.TensorOf(graph.Int64, []int64{-4}, 1)
		c := &graph.Call{
			Node: &graph.Node{Name: "n", Op: op}, In: []*graph.Tensor{x, idx, graph.NewTensor(graph.Float32, 1)},
			Out: []*graph.Tensor{graph.NewTensor(graph.Float32, 3)}, Parallel: f32.Serial,
		}
		if err := graph.Try(func() { op.Fast(c) }); err == nil || !strings.Contains(err.Error(), "index -4 is outside [-3, 3)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCarry compares both forms of a move on boxes too large for samples, of
// every element size.
func TestCarry(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		perm  []int64
	}{
		{[]int64{97, 130}, []int64{1, 0}},
		{[]int64{2, 40, 3, 70}, []int64{0, 2, 1, 3}},
		{[]int64{2, 40, 3, 70}, []int64{0, 3, 1, 2}},
		{[]int64{2, 40, 3, 70}, []int64{3, 2, 1, 0}},
		{[]int64{3, 1, 50000}, []int64{1, 2, 0}},
		{[]int64{2, 40000}, []int64{0, 1}},
	} {
		for _, dt := range []graph.DType{graph.Uint8, graph.Float16, graph.Float32, graph.Int64} {
			g := graph.New(Library, "")
			b := graph.NewBuilder(g)
			v, err := b.Define(graph.Input, "x", dt, graph.Dims(c.shape...))
			if err != nil {
				t.Fatal(err)
			}
			y := b.Op("Transpose", graph.A{"perm": c.perm}, v)
			shape, _ := numbers(v.Shape)
			out, _ := numbers(y.Shape)
			x := graph.NewTensor(dt, shape...)
			for i := range x.Bytes {
				x.Bytes[i] = byte(i * 7 >> 3)
			}
			call := newCall(t, Case{Node: g.Nodes[0], In: []*graph.Tensor{x}}, 3)
			want, got := graph.NewTensor(dt, out...), graph.NewTensor(dt, out...)
			call.Out = []*graph.Tensor{want}
			transposition.eval(call)
			call.Out = []*graph.Tensor{got}
			transposition.fast(call)
			if !slices.Equal(want.Bytes, got.Bytes) {
				t.Errorf("%s%v by %v differs", dt, c.shape, c.perm)
			}
		}
	}
}

func BenchmarkMove(b *testing.B) {
	for _, s := range []string{
		"Transpose f32[1024,1024]; perm=[1,0]",
		"Transpose f32[4,512,8,64]; perm=[0,2,1,3]",
		"Transpose f32[4,8,512,64]; perm=[0,1,3,2]",
		"Transpose f16[1024,1024]; perm=[1,0]",
		"Expand f32[1024,1], i64{1024,1024}",
		"Slice f32[1024,1024], i64{256}, i64{768}, i64{1}",
		"Slice f32[1024,1024], i64{0}, i64{1024}, i64{1}, i64{2}",
		"Concat f32[1024,512], f32[1024,512]; axis=1",
		"Gather f32[8192,256], i64[4096]<8192",
		"com.microsoft.GatherGrad i64{8192,256}, i64[4096]<8192, f32[4096,256]",
		"ScatterElements f32[1024,256], i64[1024,256]<1024, f32[1024,256]; reduction=\"add\"",
		"Trilu f32[1024,1024]",
		"ArgMax f32[256,4096]; axis=1",
		"TopK f32[64,16384], i64{50}",
	} {
		name, text, _ := strings.Cut(s, " ")
		domain, op := "", name
		if i := strings.LastIndex(name, "."); i >= 0 {
			domain, op = name[:i], name[i+1:]
		}
		b.Run(s, func(b *testing.B) {
			c, err := newCase(Library.Find(domain, op, 0), text, nil)
			if err != nil {
				b.Fatal(err)
			}
			call := &graph.Call{Node: c.Node, In: c.In, Parallel: f32.Serial}
			for _, v := range c.Node.Outputs {
				shape, _ := numbers(v.Shape)
				call.Out = append(call.Out, graph.NewTensor(v.Type, shape...))
			}
			b.SetBytes(int64(len(call.Out[0].Bytes)))
			for b.Loop() {
				c.Node.Op.Fast(call)
			}
		})
	}
}
