package graph

import (
	"slices"
	"testing"
)

// TestPrune and TestFoldInts run the pass on a graph as text and print what is
// left.
func TestPrune(t *testing.T)    { pass(t, "testdata/prune.txt", (*Graph).Prune) }
func TestFoldInts(t *testing.T) { pass(t, "testdata/fold.txt", (*Graph).FoldInts) }

func pass(t *testing.T, path string, run func(g *Graph)) {
	cases(t, path, func(t *testing.T, src string) string {
		g := parse(t, src)
		run(g)
		if err := g.Check(); err != nil {
			t.Errorf("%v\n%s", err, g)
		}
		if err := g.CheckTypes(); err != nil {
			t.Errorf("%v\n%s", err, g)
		}
		text := g.String()
		run(g)
		if again := g.String(); again != text {
			t.Errorf("a second run makes\n%s\nof\n%s", again, text)
		}
		if len(g.Nodes) > 0 {
			// What is gone does not stay in memory behind the end of the list.
			if rest := g.Nodes[len(g.Nodes):cap(g.Nodes)]; slices.ContainsFunc(rest, func(n *Node) bool { return n != nil }) {
				t.Error("removed nodes are still there")
			}
		}
		return text
	})
}

func TestClone(t *testing.T) {
	g := parse(t, good)
	before := g.String()
	c := g.Clone()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if c.String() != before {
		t.Errorf("%s\nis cloned as\n%s", before, c)
	}
	for i, v := range g.Values {
		if c.Values[i] == v || c.ByName(v.Name) != c.Values[i] {
			t.Errorf("value %s is shared or not found", v)
		}
	}
	for i, n := range g.Nodes {
		if c.Nodes[i] == n {
			t.Errorf("node %s is shared", n)
		}
	}

	// Whatever is done to the copy, the graph stays.
	b := NewBuilder(c)
	c.ByName("h").Def.Inputs[0] = b.Op("Relu", nil, c.ByName("x"))
	c.Rename(c.ByName("y"), "renamed")
	c.Outputs[0] = c.ByName("h")
	c.Inputs = append(c.Inputs[:0], nil)
	c.Updates[0], c.Updates = c.Updates[1], c.Updates[:1]
	c.Grads[0] = Grad{}
	c.Assumed = append(c.Assumed, Assume{Num(1), Num(1), "h"})
	c.ByName("w").Type = Float64
	if g.String() != before {
		t.Errorf("the graph became\n%s", g)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
}
