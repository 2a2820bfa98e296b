package planner

import (
	"fmt"
	"strings"
	"testing"

	"memopt/memopt/lab/zoo"
)

// TestCheckKnowsNoModel: a plan made on a model that is wrong about the graph is refused, whichever of its tables is wrong.
func TestCheckKnowsNoModel(t *testing.T) {
	spec := zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50}
	for _, c := range []struct {
		rule  string
		spoil func(m *model)
		want  string
	}{
		{"nothing", func(*model) {}, ""},
		{"a value is larger than that", func(m *model) { m.p.Bytes[largestOf(m)] -= 64 }, "the plan is wrong"},
		{"all values are smaller", func(m *model) {
			for v := range m.p.Bytes {
				m.p.Bytes[v] *= 2
			}
		}, "the plan is wrong"},
		{"work space is left out", func(m *model) { clear(m.p.Work) }, "the plan is wrong"},
		{"a node is dearer", func(m *model) { m.total -= m.p.Cost[3] }, "of the plain step more, not"},
		{"a node takes more operations", func(m *model) { m.flopsSum-- }, "the plain step takes"},
		{"weights are larger", func(m *model) { m.outside.State -= 64 }, "weights and states take"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := searchOf(t, spec)
			m := s.m
			again := make([]bool, len(m.g.Nodes))
			for _, n := range m.g.Nodes {
				again[n.ID] = m.mayRunAgain(n) && n.ID%3 == 0
			}
			c.spoil(m)
			err := func() (err error) {
				defer func() {
					if x := recover(); x != nil {
						err = fmt.Errorf("%v", x)
					}
				}()
				(&Search{m: m, r: Request{Dims: map[string]int64{"batch": 4, "seq": 24}}}).begin().planOf(m.order(again))
				return nil
			}()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

// largestOf is the largest value in the arena.
func largestOf(m *model) (largest int) {
	for v, bytes := range m.p.Bytes {
		if bytes > m.p.Bytes[largest] {
			largest = v
		}
	}
	return largest
}
