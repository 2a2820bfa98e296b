package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner/cluster"
)

// TestGraphs runs the cases of testdata/clusters.txt: comment lines, a graph whose
// nodes know their passes, ----, the keys with their places and what is dropped,
// and an empty line between cases.
func TestGraphs(t *testing.T) {
	golden.Cases(t, "testdata/clusters.txt", func(input string) string {
		g, err := graph.Parse(kernels.Library, input)
		if err != nil {
			t.Fatalf("%v\n%s", err, input)
		}
		a, err := cluster.AnalyseGraph(g, cluster.Of(g), cluster.Rules{Library: kernels.Library})
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, k := range a.Keys() {
			fmt.Fprintf(&got, "%s × %d saves %s\n", &k, len(k.Members), cluster.Formula(k.Saving))
			for _, m := range k.Members {
				for _, o := range a.Options(m) {
					fmt.Fprintf(&got, "  %s:", g.Nodes[a.Plans[m.Plan].Entry].Name)
					for _, i := range o.Nodes {
						got.WriteString(" " + g.Nodes[i].Name)
					}
					for _, name := range o.Keeps {
						got.WriteString(", keeps " + name)
					}
					for _, i := range o.Views {
						got.WriteString(", with view " + g.Nodes[i].Name)
					}
					got.WriteString("\n")
				}
			}
		}
		for _, d := range a.Dropped {
			fmt.Fprintf(&got, "not %s: %s\n", d.ID, d.Why)
		}
		return got.String()
	})
}

// TestFormula is ONNX Runtime's own table: what its symbolic column shows.
func TestFormula(t *testing.T) {
	for _, c := range []struct{ dim, want string }{
		{"2000*n", "2000.0*n"},
		{"24", "24.0000000000000"},
		{"589299712", "589299712.000000"},
		{"1024*a*(b - 1) + 2048*a*(b - 1)", "3072.0*a*(b - 1)"},
		{"2*a*b + 4*a*b*b", "a*b*(4.0*b + 2.0)"},
		{"12*floor(a/2)", "12.0*floor(a/2)"},
		{"16*a*b*64*2", "2048.0*a*b"},
		{"a*(b - 1)*250880*2", "501760.0*a*(b - 1)"},
		{"4*unknown", "4.0*unknown"},
		{"b*b*empty_dim_param0", "1.0*b**2*empty_dim_param0"},
		{"batch*seq_len*seq_len*32*4", "128.0*batch*seq_len**2"},
		{"batch*(28*seq - 4)", "batch*(28.0*seq - 4.0)"},
		{"4*seq + 2", "4.0*seq + 2.0"},
		{"2*a + 2*b", "2.0*a + 2.0*b"},
		{"a*b + a*c + b*c", "1.0*a*b + 1.0*a*c + 1.0*b*c"},
		{"2*a*a*b - 6*a*b*b", "a*b*(2.0*a - 6.0*b)"},
		{"8 - 8*a", "8.0 - 8.0*a"},
		{"a**3*b - a**2", "1.0*a**2*(a*b - 1)"},
	} {
		d, err := graph.ParseDim(c.dim)
		if err != nil {
			t.Fatal(err)
		}
		if got := cluster.Formula(d); got != c.want {
			t.Errorf("%s: %s, want %s", c.dim, got, c.want)
		}
	}
}

// TestFormulaMeansTheSame reads formulas back: without the points they are what
// they were.
func TestFormulaMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := graph.Num(0)
		for range rapid.IntRange(0, 4).Draw(t, "terms") {
			x := graph.Num(rapid.Int64Range(-6, 6).Draw(t, "coef"))
			for range rapid.IntRange(0, 3).Draw(t, "factors") {
				x = x.Mul(graph.Sym(rapid.SampledFrom([]string{"a", "b", "seq"}).Draw(t, "name")))
			}
			d = d.Add(x)
		}
		text := cluster.Formula(d)
		if n, ok := d.Const(); ok {
			if whole, _, _ := strings.Cut(text, "."); whole != fmt.Sprint(n) {
				t.Fatalf("%s became %s", d, text)
			}
			return
		}
		back, err := graph.ParseDim(strings.ReplaceAll(text, ".0", ""))
		if err != nil || !back.Equal(d) {
			t.Fatalf("%s became %s, which is %s (%v)", d, text, back, err)
		}
	})
}
