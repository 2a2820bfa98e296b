package cluster

import (
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// Cluster is every place of one structure in a graph, as strategies ask for it.
// Views own no bytes, so a cluster begins at the node that owns the storage and
// its ID does not name the views on the way.
type Cluster struct {
	ID      string
	Entries []Entry // in execution order
}

// Entry is one place: Node's outputs are kept for the backward pass; running
// Nodes again (in order, ending with Node) makes them anew.
type Entry struct {
	Node   *graph.Node
	Nodes  []*graph.Node
	Saving graph.Dim // bytes not kept, over all of Node's kept outputs
}

// Saving is the bytes of all entries together.
func (c *Cluster) Saving() graph.Dim {
	sum := graph.Num(0)
	for _, e := range c.Entries {
		sum = sum.Add(e.Saving)
	}
	return sum
}

// Owner is the value whose bytes v shows: v itself unless it is a view.
func Owner(v *graph.Value) *graph.Value {
	for v.Def != nil && v.Def.Op.View && v.Out == 0 {
		v = v.Def.Inputs[0]
	}
	return v
}

// Stashed marks, by value ID, the owners that forward nodes make and backward
// nodes read.
func Stashed(g *graph.Graph) []bool {
	kept := make([]bool, len(g.Values))
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward || n.Op.View {
			continue
		}
		for _, v := range n.Inputs {
			if v == nil {
				continue
			}
			if o := Owner(v); o.Def != nil && o.Def.Phase == graph.Forward {
				kept[o.ID] = true
			}
		}
	}
	return kept
}

// Find lists the clusters of a training graph, by first entry. Nodes that may
// not run again, and storage that outlives the step as an output, are in none.
func Find(g *graph.Graph) []Cluster {
	kept := Stashed(g)
	// What outlives the step is there without being kept for anyone: it saves
	// nothing, and what is grown from it need not make it again.
	lasts := make([]bool, len(g.Values))
	for _, v := range g.Outputs {
		lasts[Owner(v).ID] = true
	}
	for _, u := range g.Updates {
		lasts[Owner(u.New).ID] = true
	}
	there := slices.Clone(kept)
	for i, is := range lasts {
		there[i] = there[i] || is
	}
	f := &finder{there: there, seen: make([]int32, len(g.Nodes))}
	var all []Cluster
	byID := map[string]int{}
	for _, n := range g.Nodes {
		if n.Phase != graph.Forward || n.Op.Recompute == graph.Never {
			continue
		}
		saving := graph.Num(0)
		stashed := false
		for _, v := range n.Outputs {
			if v != nil && kept[v.ID] && !lasts[v.ID] {
				stashed = true
				saving = saving.Add(v.Bytes())
			}
		}
		if !stashed {
			continue
		}
		nodes, ok := f.grow(n)
		if !ok {
			continue
		}
		id := ID(nodes)
		i, known := byID[id]
		if !known {
			i = len(all)
			byID[id] = i
			all = append(all, Cluster{ID: id})
		}
		all[i].Entries = append(all[i].Entries, Entry{n, nodes, saving})
	}
	return all
}

// ID spells a cluster: the operators in execution order, each followed by +.
func ID(nodes []*graph.Node) string {
	var sb strings.Builder
	for _, n := range nodes {
		sb.WriteString(n.Op.Name)
		sb.WriteByte('+')
	}
	return sb.String()
}

type finder struct {
	there []bool  // by value ID: needs no making
	seen  []int32 // by node ID: serial of the growth that met it
	round int32
}

// grow collects what must run again to make n's outputs: producers of inputs
// that are not there. It fails at a producer that may not run again.
func (f *finder) grow(n *graph.Node) ([]*graph.Node, bool) {
	f.round++
	var nodes []*graph.Node
	work := []*graph.Node{n}
	f.seen[n.ID] = f.round
	for len(work) > 0 {
		m := work[len(work)-1]
		work = work[:len(work)-1]
		if m.Op.Recompute == graph.Never {
			return nil, false
		}
		nodes = append(nodes, m)
		for _, v := range m.Inputs {
			if v == nil {
				continue
			}
			o := Owner(v)
			if o.Def == nil || f.there[o.ID] || f.seen[o.Def.ID] == f.round {
				continue
			}
			f.seen[o.Def.ID] = f.round
			work = append(work, o.Def)
		}
	}
	slices.SortFunc(nodes, func(a, b *graph.Node) int { return int(a.ID - b.ID) })
	return nodes, true
}
