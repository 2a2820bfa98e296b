package graph

import (
	"fmt"
	"slices"
)

// Check verifies the invariants of a graph between stages and reports the first violation. It
// is independent of the builder's checks.
func (g *Graph) Check() (err error) {
	if sizeErr := Try(func() { err = g.check() }); sizeErr != nil {
		return sizeErr
	}
	return err
}

func (g *Graph) check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf(format, args...) }
	known := make([]bool, len(g.Values)) // made before the current node
	named := g.namesHold()
	for i, v := range g.Values {
		switch {
		case v == nil:
			return bad("value %d is nil", i)
		case int(v.ID) != i:
			return bad("value %q has ID %d at place %d", v.Name, v.ID, i)
		case v.Name == "":
			return bad("value %d has no name", i)
		case !named && g.byName[v.Name] != v:
			return bad("two values are named %q", v.Name)
		case !v.Type.Valid():
			return bad("value %q has no element type", v.Name)
		case v.Kind == Sequence || v.Kind == Ragged || v.Seq != nil:
			return bad("value %q is a sequence", v.Name)
		case (v.Kind == Computed) != (v.Def != nil):
			return bad("value %q is %s, but its node says otherwise", v.Name, v.Kind)
		case v.Ints != nil && !v.Shape.Elems().Is(int64(len(v.Ints))):
			return bad("value %q: %d known contents for shape %s", v.Name, len(v.Ints), v.Shape)
		case v.Data != nil && !v.Bytes().Is(v.Data.Len()):
			return bad("value %q: %d bytes of data for %s%s", v.Name, v.Data.Len(), v.Type, v.Shape)
		}
		for _, d := range v.Shape {
			if n, ok := d.Const(); ok && n < 0 {
				return bad("value %q has a dim of %d", v.Name, n)
			}
		}
		known[i] = v.Kind != Computed
	}
	if len(g.byName) != len(g.Values) {
		return bad("%d names for %d values", len(g.byName), len(g.Values))
	}
	has := func(v *Value) bool {
		return v != nil && uint(v.ID) < uint(len(g.Values)) && g.Values[v.ID] == v
	}
	phase := Forward
	for i, n := range g.Nodes {
		if n == nil {
			return bad("node %d is nil", i)
		}
		if int(n.ID) != i {
			return bad("node %q has ID %d at place %d", n.Name, n.ID, i)
		}
		if n.Op == nil || n.Op.Rewrite != nil {
			return bad("node %q has no operator that can run", n.Name)
		}
		if n.Phase < phase && n.Phase == Forward && !g.recorded() {
			return bad("node %q (%s) is forward after the forward phase has ended", n.Name, n.Op.Name)
		}
		phase = max(phase, n.Phase)
		if err := n.checkCall(len(n.Outputs)); err != nil {
			return err
		}
		for j, v := range n.Inputs {
			switch {
			case v == nil:
			case !has(v):
				return bad("node %q (%s): input %d (%s) is not in this graph", n.Name, n.Op.Name, j, v.Name)
			case !known[v.ID]:
				return bad("node %q (%s): input %d (%s) is used before it is made", n.Name, n.Op.Name, j, v.Name)
			}
		}
		for j, v := range n.Outputs {
			switch {
			case v == nil && !n.Op.outPort(j).Optional:
				return bad("node %q (%s): output %d is missing", n.Name, n.Op.Name, j)
			case v == nil:
			case !has(v) || v.Def != n || int(v.Out) != j:
				return bad("node %q (%s): output %d (%s) belongs elsewhere", n.Name, n.Op.Name, j, v.Name)
			default:
				known[v.ID] = true
			}
		}
	}
	for i, v := range g.Values {
		if !known[i] {
			return bad("value %q: its node %q is not in the graph", v.Name, v.Def.Name)
		}
	}
	for _, v := range g.Outputs {
		if !has(v) {
			return bad("an output is not in this graph")
		}
	}
	for _, v := range g.Inputs {
		if !has(v) {
			return bad("an input is not in this graph")
		}
		if v.Kind != Input {
			return bad("input %q is %s", v.Name, v.Kind)
		}
	}
	if g.Loss != nil && (!has(g.Loss) || !g.Loss.Type.IsFloat() || !g.Loss.Shape.Elems().Is(1)) {
		return bad("loss %s is not one float of this graph", g.Loss)
	}
	replaced := map[*Value]bool{}
	for _, u := range g.Updates {
		switch {
		case !has(u.State) || !has(u.New):
			return bad("an update is not in this graph")
		case u.State.Kind != State && !u.State.Kind.Stored():
			return bad("update of %q, which is %s", u.State.Name, u.State.Kind)
		case replaced[u.State]:
			return bad("two updates of %q", u.State.Name)
		case u.State.Type != u.New.Type || !u.State.Shape.Equal(u.New.Shape):
			return bad("update of %s by %s", u.State, u.New)
		}
		replaced[u.State] = true
	}
	for _, d := range g.Grads {
		if !has(d.Param) || !has(d.Grad) || d.Param.Type != d.Grad.Type || !d.Param.Shape.Equal(d.Grad.Shape) {
			return bad("gradient %s is not of parameter %s", d.Grad, d.Param)
		}
	}
	for _, h := range g.Holds {
		switch {
		case !has(h.Value):
			return bad("a value that is held is not in this graph")
		case h.Until == nil || uint(h.Until.ID) >= uint(len(g.Nodes)) || g.Nodes[h.Until.ID] != h.Until || h.Until.Op.View:
			return bad("%q is held until a node that is not in this graph, or a view", h.Value.Name)
		case h.Value.Def != nil && h.Value.Def.ID > h.Until.ID:
			return bad("%q is held until %q, which runs before it is made", h.Value.Name, h.Until.Name)
		}
	}
	return nil
}

// namesHold reports whether the table of names is right. Iterating over it is faster than looking up each name.
func (g *Graph) namesHold() bool {
	for name, v := range g.byName {
		if v == nil || v.Name != name || uint(v.ID) >= uint(len(g.Values)) || g.Values[v.ID] != v {
			return false
		}
	}
	return len(g.byName) == len(g.Values)
}

// CheckTypes infers every node again and compares types and shapes with the graph's.
func (g *Graph) CheckTypes() error {
	for _, n := range g.Nodes {
		m := *n
		m.Outputs = make([]*Value, len(n.Outputs))
		for i, v := range n.Outputs {
			if v != nil {
				m.Outputs[i] = &Value{Name: v.Name}
			}
		}
		if err := Try(func() { n.Op.Infer(&m) }); err != nil {
			return err
		}
		for i, v := range n.Outputs {
			if v != nil && (m.Outputs[i].Type != v.Type || !m.Outputs[i].Shape.Equal(v.Shape)) {
				return fmt.Errorf("node %q (%s): output %s should be %s%s",
					n.Name, n.Op.Name, v, m.Outputs[i].Type, m.Outputs[i].Shape)
			}
		}
	}
	return nil
}

// recorded reports whether the program was recorded elsewhere, where one step may run the model several times.
func (g *Graph) recorded() bool {
	return slices.ContainsFunc(g.Recorded, func(r Recorded) bool { return r.Name == Allocator })
}
