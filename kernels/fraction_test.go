package kernels

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestFractions: sizes that are computed in floats are known as formulas, or
// not at all.
func TestFractions(t *testing.T) {
	for _, c := range []struct{ nodes, want string }{
		{"y = Ceil(n)", "seq"},
		{"d = Mul(n, half)\ny = Floor(d)", "floor(seq/2)"},
		{"d = Mul(n, half)\ny = Ceil(d)", "ceil(seq/2)"},
		{"d = Div(n, two)\ny = Identity(d)", "floor(seq/2)"}, // a cast cuts
		{"a = Neg(n)\nb = Sub(a, n)\nd = Div(b, minus)\ny = Ceil(d)", "2*seq"},
		{"a = Neg(n)\nd = Div(a, two)\ny = Identity(d)", "ceil((-seq)/2)"},
		{"a = Add(n, half)\ny = Floor(a)", "seq"},
		{"a = Add(n, two)\nd = Div(two, a)\ny = Ceil(d)", "ceil(2/(seq + 2))"},
		{"d = Mul(n, tenth)\ny = Floor(d)", "unknown"}, // 0.1 is not the number that is meant
		{"a = Sub(n, two)\nd = Div(n, a)\ny = Floor(d)", "unknown"},
		{"a = Sub(n, two)\nd = Mul(a, half)\ny = Identity(d)", "unknown"},                                                   // cut up or down
		{"a = Sub(n, two)\nd = Mul(a, half)\ni = Cast(d) to=7\nb = Cast(i) to=1\ne = Mul(b, two)\ny = Floor(e)", "unknown"}, // so is what comes of it
		{"d = Div(n, zero)\ny = Floor(d)", "unknown"},
		{"y = Sqrt(n)", "unknown"},
	} {
		g, err := graph.Parse(Library, `x f32[seq] = input
s i64[] = const {seq}
half f32[] = const {0.5}
two f32[] = const {2}
minus f32[] = const {-1}
tenth f32[] = const {0.1}
zero f32[] = const {0}
n = Cast(s) to=1
`+c.nodes+"\nz = Cast(y) to=7\noutput z")
		if err != nil {
			t.Fatalf("%v\n%s", err, c.nodes)
		}
		got := "unknown"
		if z := g.ByName("z"); z.Ints != nil {
			got = z.Ints[0].String()
		}
		if got != c.want {
			t.Errorf("%s\nis %s, want %s", strings.TrimSpace(c.nodes), got, c.want)
		}
	}
}
