package graph_test

import (
	"maps"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// TestSizes: names are found where they stand alone or in a formula of one name, and must agree.
func TestSizes(t *testing.T) {
	seq, batch := graph.Sym("seq"), graph.Sym("batch")
	double := seq.Mul(graph.Num(2)).Add(graph.Num(1))
	value := func(name string, dims ...graph.Dim) *graph.Value {
		return &graph.Value{Name: name, Type: graph.Float32, Shape: dims}
	}
	for _, c := range []struct {
		inputs []*graph.Value
		shapes [][]int
		want   map[string]int64
		err    string
	}{
		{[]*graph.Value{value("x", batch, seq)}, [][]int{{2, 5}}, map[string]int64{"batch": 2, "seq": 5}, ""},
		{[]*graph.Value{value("x", double)}, [][]int{{7}}, map[string]int64{"seq": 3}, ""},
		{[]*graph.Value{value("x", double)}, [][]int{{8}}, map[string]int64{}, ""},
		{[]*graph.Value{value("x", double), value("y", seq)}, [][]int{{7}, {4}}, map[string]int64{"seq": 4}, ""}, // binding finds the contradiction
		{[]*graph.Value{value("x", batch.Mul(seq)), value("y", seq)}, [][]int{{6}, {3}}, map[string]int64{"seq": 3}, ""},
		{[]*graph.Value{value("x", seq), value("y", seq)}, [][]int{nil, {3}}, map[string]int64{"seq": 3}, ""},
		{[]*graph.Value{value("x", seq), value("y", seq)}, [][]int{{2}, {3}}, nil, `input "y" has shape [3], the model takes [seq], and seq is 2`},
	} {
		shapes := map[*graph.Value][]int{}
		for i, v := range c.inputs {
			shapes[v] = c.shapes[i]
		}
		got, err := graph.Sizes(c.inputs, func(v *graph.Value) []int { return shapes[v] })
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, not %s", c.shapes, err, c.err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; not %v", c.shapes, got, err, c.want)
		}
	}
}
