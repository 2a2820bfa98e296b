package kernels

import (
	"fmt"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// prices are nodes over symbolic shapes, with the operations that a plain loop
// counts: two for each multiplication and addition of a product, a stated
// number for each element of what works by rows. Capital letters are dims.
var prices = []struct {
	name, text string
	count      func(d map[string]int64) int64
}{
	{"MatMul", "y = MatMul(x f32[B, M, K], w f32[K, N])", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], d["M"], d["N"], d["K"])
	}},
	{"MatMul of a vector", "y = MatMul(x f32[K], w f32[B, K, N])", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], d["N"], d["K"])
	}},
	{"MatMul, attention scores", "y = MatMul(q f32[B, 4, M, K], k f32[B, 4, K, N])", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], 4, d["M"], d["N"], d["K"])
	}},
	{"Gemm", "y = Gemm(x f32[M, K], w f32[N, K], c f32[N]) transB=1", func(d map[string]int64) int64 {
		return 2 * visits(d["M"], d["N"], d["K"])
	}},
	{"Gemm, the first transposed", "y = Gemm(x f32[K, M], w f32[K, N]) transA=1", func(d map[string]int64) int64 {
		return 2 * visits(d["M"], d["N"], d["K"])
	}},
	{"FusedMatMul", "y = com.microsoft.FusedMatMul(x f32[B, K, M], w f32[B, N, K]) transA=1 transB=1 alpha=0.5", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], d["M"], d["N"], d["K"])
	}},
	{"Conv", "y = Conv(x f32[B, 4, M, N], w f32[6, 4, 3, 2], b f32[6]) strides=[2, 1]", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], 6, windows(d["M"], 3, 2), windows(d["N"], 2, 1), 4, 3, 2)
	}},
	{"Conv in groups", "y = Conv(x f32[B, 4, M, N], w f32[8, 2, 3, 3]) group=2 pads=[1, 1, 1, 1]", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], 8, windows(d["M"]+2, 3, 1), windows(d["N"]+2, 3, 1), 2, 3, 3)
	}},
	{"Conv by depth", "y = Conv(x f32[B, 4, M], w f32[4, 1, 3]) group=4", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], 4, windows(d["M"], 3, 1), 3)
	}},
	{"ConvTranspose", "y = ConvTranspose(x f32[B, 4, M, N], w f32[4, 3, 2, 3]) group=2 strides=[2, 2]", func(d map[string]int64) int64 {
		return 2 * visits(d["B"], 4, d["M"], d["N"], 3, 2, 3)
	}},
	{"Add", "y = Add(x f32[B, M, N], b f32[N])", everyElement(1)},
	{"Sub", "y = Sub(x f32[N], b f32[B, M, N])", everyElement(1)},
	{"Mul", "y = Mul(x f32[B, 1, N], b f32[M, 1])", everyElement(1)},
	{"Div", "y = Div(x f32[B, M, N], b f32[])", everyElement(1)},
	{"Relu", "y = Relu(x f32[B, M, N])", everyElement(1)},
	{"Gelu", "y = Gelu(x f32[B, M, N])", everyElement(8)},
	{"BiasGelu", "y = com.microsoft.BiasGelu(x f32[B, M, N], b f32[N])", everyElement(9)},
	{"Softmax", "y = Softmax(x f32[B, M, N])", everyElement(12)},
	{"LogSoftmax", "y = LogSoftmax(x f32[B, M, N])", everyElement(12)},
	{"LayerNormalization", "y = LayerNormalization(x f32[B, M, N], s f32[N], b f32[N])", everyElement(8)},
	{"ReduceSum", "y = ReduceSum(x f32[B, M, N]) keepdims=0", everyElement(1)},
	{"ReduceSum of one axis", "y = ReduceSum(x f32[B, M, N], a i64{1})", everyElement(1)},
	{"Reshape", "y = Reshape(x f32[B, M, N], s i64{-1})", everyElement(0)},
	{"Transpose", "y = Transpose(x f32[B, M, N])", everyElement(0)},
}

func everyElement(flops int64) func(d map[string]int64) int64 {
	return func(d map[string]int64) int64 { return flops * visits(d["B"], d["M"], d["N"]) }
}

// windows counts the places where a window fits.
func windows(size, window, stride int64) (n int64) {
	for at := int64(0); at+window <= size; at += stride {
		n++
	}
	return n
}

var priceSizes = []map[string]int64{
	{"B": 1, "M": 5, "N": 4, "K": 3},
	{"B": 2, "M": 8, "N": 7, "K": 1},
	{"B": 3, "M": 6, "N": 9, "K": 10},
}

// priceGraph puts a node's inputs, which are written within it, before it.
func priceGraph(t *testing.T, text string) *graph.Graph {
	head, rest, _ := strings.Cut(text, "(")
	args, attrs, _ := strings.Cut(rest, ")")
	var lines strings.Builder
	var names []string
	for _, f := range splitTop(args) {
		name, typ, _ := strings.Cut(f, " ")
		names = append(names, name)
		if dtype, contents, known := strings.Cut(typ, "{"); known {
			fmt.Fprintf(&lines, "%s %s[1] = const {%s\n", name, dtype, contents)
		} else {
			fmt.Fprintf(&lines, "%s %s = input\n", name, typ)
		}
	}
	fmt.Fprintf(&lines, "%s(%s)%s\noutput y\n", head, strings.Join(names, ", "), attrs)
	g, err := graph.Parse(Library, lines.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, lines.String())
	}
	return g
}

func priceOf(t *testing.T, n *graph.Node, sizes map[string]int64) int64 {
	b, err := graph.Bind(sizes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Eval(n.Op.Flops(n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPrices(t *testing.T) {
	for _, p := range prices {
		t.Run(p.name, func(t *testing.T) {
			g := priceGraph(t, p.text)
			for _, sizes := range priceSizes {
				if got, want := priceOf(t, g.Nodes[0], sizes), p.count(sizes); got != want {
					t.Errorf("%v: %d operations, counted %d", sizes, got, want)
				}
			}
		})
	}
}

// TestGradientPrices: each gradient of a convolution costs what it costs.
func TestGradientPrices(t *testing.T) {
	g := priceGraph(t, "y = Conv(x f32[B, 4, M, N], w f32[6, 2, 3, 2]) group=2 strides=[2, 1]")
	conv := g.Nodes[0]
	b := graph.NewBuilder(g)
	dy := b.Op("Identity", nil, conv.Outputs[0])
	first := len(g.Nodes)
	conv.Op.Grad(b, conv, []*graph.Value{dy})
	found := 0
	for _, n := range g.Nodes[first:] {
		if !strings.HasPrefix(n.Op.Name, "Conv") {
			continue
		}
		found++
		for _, sizes := range priceSizes {
			want := 2 * visits(sizes["B"], 6, windows(sizes["M"], 3, 2), windows(sizes["N"], 2, 1), 2, 3, 2)
			if got := priceOf(t, n, sizes); got != want {
				t.Errorf("%s, %v: %d operations, counted %d", n.Op.Name, sizes, got, want)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d gradients of a convolution, not 2", found)
	}
}
