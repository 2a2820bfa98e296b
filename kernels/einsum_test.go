package kernels

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// TestEinsum compares what Einsum is rewritten to with a sum over all indices.
// (Shapes: a is 2, b is 3, … f is 7; ellipses are written out in want.)
func TestEinsum(t *testing.T) {
	for _, c := range []struct{ equation, want string }{
		{"ab,bc->ac", ""},
		{"ab,cb->ac", ""},
		{"ba,bc->ca", ""},
		{"ab,bc", "ab,bc->ac"},
		{"ba", "ba->ab"},
		{"aa", "aa->"},
		{"aab->ba", ""},
		{"aaa->a", ""},
		{"abc->cb", ""},
		{"abc->b", ""},
		{"a,b->ab", ""},
		{"ab,ab->ab", ""},
		{"ab,ba->", ""},
		{"ab,bc,cd->ad", ""},
		{"ab,bc,ac->b", ""},
		{"abcd,abed->abce", ""},
		{"abcd,abde->acbe", ""},
		{"a b c, c d -> a b d", "abc,cd->abd"},
		{"...ab,...bc->...ac", "efab,efbc->efac"},
		{"...a,a", "efa,a->ef"},
		{"a...->...a", "aef->efa"},
	} {
		if c.want == "" {
			c.want = c.equation
		}
		for _, typ := range []graph.DType{graph.Float64, graph.Int32} {
			t.Run(fmt.Sprint(c.equation, " ", typ), func(t *testing.T) { testEinsum(t, c.equation, c.want, typ) })
		}
	}
}

func testEinsum(t *testing.T, equation, want string, typ graph.DType) {
	rng := rand.New(rand.NewPCG(1, hash(equation)))
	left, right, _ := strings.Cut(want, "->")
	terms := strings.Split(left, ",")
	shape := func(term string) []int {
		s := make([]int, len(term))
		for i, r := range term {
			s[i] = int(r-'a') + 2
		}
		return s
	}
	var src strings.Builder
	given := map[string]*graph.Tensor{}
	var in []*graph.Tensor
	var names []string
	for i, term := range terms {
		x := graph.NewTensor(typ, shape(term)...)
		for k := range x.Len() {
			x.SetFloat(k, float64(rng.IntN(9)-4))
		}
		names = append(names, fmt.Sprintf("x%d", i))
		fmt.Fprintf(&src, "x%d %s%s = input\n", i, typ, strings.ReplaceAll(fmt.Sprint(x.Shape), " ", ", "))
		given[names[i]], in = x, append(in, x)
	}
	fmt.Fprintf(&src, "y = Einsum(%s) equation=%q\noutput y\n", strings.Join(names, ", "), equation)
	g, err := graph.Parse(Library, src.String())
	if err != nil {
		t.Fatal(err)
	}
	binding, _ := graph.Bind(nil)
	values, err := Interpret(g, binding, given)
	if err != nil {
		t.Fatal(err)
	}
	got := values[g.Outputs[0].ID]
	if !slices.Equal(got.Shape, shape(right)) {
		t.Fatalf("shape is %v, not %v", got.Shape, shape(right))
	}

	labels := map[rune]bool{}
	for _, r := range left {
		labels[r] = r != ','
	}
	delete(labels, ',')
	order := slices.Sorted(maps.Keys(labels))
	sums := make([]float64, got.Len())
	at := func(term string, idx []int) int {
		offset := 0
		for i, r := range term {
			offset = offset*shape(term)[i] + idx[slices.Index(order, r)]
		}
		return offset
	}
	all := shape(string(order))
	idx := make([]int, len(order))
	for n := range index.Elems(all) {
		for i := len(all) - 1; i >= 0; i-- {
			idx[i], n = n%all[i], n/all[i]
		}
		product := 1.0
		for i, term := range terms {
			product *= in[i].Float(at(term, idx))
		}
		sums[at(right, idx)] += product
	}
	for i, s := range sums {
		if math.Abs(got.Float(i)-s) > 1e-9 {
			t.Fatalf("element %d is %v, not %v", i, got.Float(i), s)
		}
	}
}
