package graph

import (
	"slices"
	"strings"
	"testing"
)

// passLibrary is operators that show every facet which passes read.
var passLibrary = func() *Library {
	lib := &Library{}
	same := func(n *Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) }
	free := func(*Node) Dim { return Num(0) }
	each := func(f func(x, y float64) float64) func(c *Call) {
		return func(c *Call) {
			for i := range c.Out[0].Len() {
				y := 0.0
				if len(c.In) > 1 {
					y = c.In[1].Float(i % c.In[1].Len())
				}
				c.Out[0].SetFloat(i, f(c.In[0].Float(i), y))
			}
		}
	}
	add := Op{Name: "Add", In: "A, B", Out: "C", Infer: same, Recompute: Cheap, Flops: free,
		Eval: each(func(x, y float64) float64 { return x + y })}
	lib.Define(add)
	lib.Define(Op{Name: "Neg", In: "X", Out: "Y", Infer: same, Recompute: Cheap, Flops: free, Attrs: "by int=1",
		Eval: each(func(x, _ float64) float64 { return -x })})
	lib.Define(Op{Name: "Draw", In: "X", Out: "Y", Attrs: "seed int", Infer: same, Recompute: Cheap, Flops: free, Random: true,
		Eval: each(func(x, _ float64) float64 { return x })})
	lib.Define(Op{Name: "Send", In: "X", Out: "Y", Infer: same, Flops: free, Eval: each(func(x, _ float64) float64 { return x })})
	lib.Define(Op{Name: "Fails", In: "X", Out: "Y", Infer: same, Recompute: Cheap, Flops: free,
		Eval: func(c *Call) { c.Node.Fail("always") }})
	lib.Define(Op{Name: "Dear", In: "X", Out: "Y", Infer: same, Recompute: Heavy, Flops: func(*Node) Dim { return Num(1 << 40) },
		Eval: each(func(x, _ float64) float64 { return x })})
	lib.Define(Op{Name: "Grow", In: "X", Out: "Y", Recompute: Cheap, Flops: free,
		Infer: func(n *Node) { n.Set(0, n.Inputs[0].Type, Shape{n.Inputs[0].Shape[0].Mul(Num(1000))}) },
		Eval:  func(c *Call) { clear(c.Out[0].Bytes) }})
	lib.Define(Op{Name: "Same", In: "X", Out: "Y, extra?", Recompute: Cheap, Flops: free, Attrs: "really int=1",
		Infer: func(n *Node) { same(n); n.Set(1, n.Inputs[0].Type, n.Inputs[0].Shape) },
		NoOp:  func(n *Node) bool { return n.Int("really") != 0 },
		Eval:  each(func(x, _ float64) float64 { return x })})
	lib.Define(Op{Name: "Shape", In: "X", Out: "shape", Flops: free, Recompute: Cheap, Eval: func(*Call) {},
		Infer: func(n *Node) {
			n.Set(0, Int64, Dims(int64(n.Inputs[0].Rank())))
			n.SetInts(0, n.Inputs[0].Shape)
		}})
	lib.Define(Op{Name: "View", In: "X, shape", Out: "Y", View: true, Recompute: Cheap, Flops: free, Eval: func(*Call) {},
		Infer: func(n *Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[1].Ints) },
		Simplify: func(b *Builder, n *Node) []*Value {
			if inner := n.Inputs[0].Def; inner != nil && inner.Op.View {
				return []*Value{b.Apply(n.Op, nil, 1, inner.Inputs[0], n.Inputs[1])[0]}
			}
			return nil
		}})
	lib.Define(Op{Name: "NegAdd", In: "A, B", Out: "C", Infer: same, Recompute: Cheap, Flops: free, Attrs: "whole int=0",
		Eval: each(func(x, y float64) float64 { return -(x + y) }),
		Unfold: func(b *Builder, n *Node) []*Value {
			if n.Int("whole") != 0 {
				return nil
			}
			return b.Ops("Neg", nil, 1, b.Op("Add", nil, n.Inputs...))
		}})
	// Sub is an Add of a Neg, and Twist is a Neg of that.
	lib.Define(Op{Name: "Sub", In: "A, B", Out: "C", Infer: same, Recompute: Cheap, Flops: free,
		Eval: each(func(x, y float64) float64 { return x - y }),
		Fuse: func(m *Match) []*Value {
			if m.Node.Op.Name != "Add" {
				return nil
			}
			neg := m.Piece(m.Node.Inputs[1], "Neg")
			if neg == nil {
				return nil
			}
			return m.Builder.Ops("Sub", nil, 1, m.Node.Inputs[0], neg.Inputs[0])
		}})
	lib.Define(Op{Name: "Twist", In: "A, B", Out: "C", Infer: same, Recompute: Cheap, Flops: free,
		Eval: each(func(x, y float64) float64 { return y - x }),
		Fuse: func(m *Match) []*Value {
			if m.Node.Op.Name != "Neg" {
				return nil
			}
			sub := m.Inner(m.Node.Inputs[0], "Sub")
			if sub == nil {
				return nil
			}
			return m.Builder.Ops("Twist", nil, 1, sub.Inputs...)
		}})
	return lib
}()

// TestPasses runs one pass, or Clean, on graphs as text and prints what is
// left.
func TestPasses(t *testing.T) {
	for _, p := range append(slices.Clone(passes), cleanup{name: "all"}) {
		t.Run(p.name, func(t *testing.T) {
			cases(t, "testdata/passes/"+p.name+".txt", func(t *testing.T, src string) string {
				g, err := Parse(passLibrary, src)
				if err != nil {
					t.Fatal(err)
				}
				o := CleanOptions{Fuse: func(*Op) bool { return true }, Unfold: true}
				o.After = func(name string) {
					if err := g.Check(); err != nil {
						t.Fatalf("after %s: %v\n%s", name, err, g)
					}
					if err := g.CheckTypes(); err != nil {
						t.Fatalf("after %s: %v\n%s", name, err, g)
					}
				}
				o.After("parsing")
				before := g.Clone()
				run := func() {
					if p.run == nil {
						g.Clean(o)
					} else {
						p.run(g, o)
						o.After(p.name)
					}
				}
				run()
				text := g.String()
				if run(); g.String() != text {
					t.Errorf("a second run makes\n%s\nof\n%s", g, text)
				}
				sameNames(t, g, before)
				return text
			})
		})
	}
}

// sameNames: what is known outside has its name still.
func sameNames(t *testing.T, got, want *Graph) {
	t.Helper()
	list := func(g *Graph) (names []string) {
		for _, v := range g.Inputs {
			names = append(names, "input "+v.String())
		}
		for _, v := range g.Outputs {
			names = append(names, "output "+v.String())
		}
		for _, u := range g.Updates {
			names = append(names, "update "+u.State.String()+" "+u.New.String())
		}
		for _, d := range g.Grads {
			names = append(names, "grad "+d.Param.String()+" "+d.Grad.String())
		}
		if g.Loss != nil {
			names = append(names, "loss "+g.Loss.String())
		}
		return names
	}
	if a, b := list(got), list(want); !slices.Equal(a, b) {
		t.Errorf("known outside is\n%s\nnot\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

// TestPassOrder: the table is held against its order at start, so a wrong one
// must be seen.
func TestPassOrder(t *testing.T) {
	if err := checkOrder(passes, passOrder); err != nil {
		t.Error(err)
	}
	swapped := slices.Clone(passes)
	slices.Reverse(swapped)
	for name, c := range map[string]struct {
		passes []cleanup
		order  [][3]string
		want   string
	}{
		"reversed": {swapped, passOrder, `pass "dead" must run before "no-ops"`},
		"itself":   {passes, [][3]string{{"fuse", "fuse", "it cannot"}}, "it cannot"},
		"unknown":  {passes, [][3]string{{"fuse", "melt", ""}}, `"fuse" and "melt", which are not both passes`},
		"twice":    {append(slices.Clone(passes), passes[0]), nil, `two passes are named "dead"`},
	} {
		if err := checkOrder(c.passes, c.order); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
	}
}

// TestReport: the report counts what was done.
func TestReport(t *testing.T) {
	g, err := Parse(passLibrary, `
x f32[4] = input
z f32[4] = input
a = Same(x)
b = Neg(z)
c = Add(a, b)
d = Neg(c)
y = Add(d, x)
output y
`)
	if err != nil {
		t.Fatal(err)
	}
	r := g.Clean(CleanOptions{Fuse: func(*Op) bool { return true }})
	if r.Before != 5 || r.After != 2 || len(g.Nodes) != 2 {
		t.Errorf("%d nodes, then %d\n%s", r.Before, r.After, g)
	}
	want := `no-ops        -1 nodes  removes nodes whose output is their input
fuse          -2 nodes  fuses nodes into one whose gradient keeps less
                        1 × Sub
                        1 × Twist
all            5 nodes, now 2
`
	if r.String() != want {
		t.Errorf("got\n%s", r)
	}
	if (Report{}).String() == "" {
		t.Error("a report of nothing says nothing")
	}
}
