package graph

// Streamed reports, by value, the states of optimizers that an update can take a piece at a time: they begin as zeros, one
// update in place is all that touches them, and no element of it needs another one.
func (g *Graph) Streamed() []bool {
	is, users := make([]bool, len(g.Values)), make([]int, len(g.Values))
	for _, n := range g.Nodes {
		for i, v := range n.Inputs {
			if v == nil || v.Kind != State {
				continue
			}
			users[v.ID]++
			is[v.ID] = v.Data == nil && v.Rank() > 0 && n.Phase == Updating && n.Op.Streams && n.overwrites(i)
		}
	}
	last := map[*Value]*Value{}
	for _, u := range g.Updates {
		last[u.State] = u.New
	}
	for i, v := range g.Values {
		is[i] = is[i] && users[i] == 1 && last[v] != nil
	}
	for _, v := range g.Outputs { // read behind the step
		is[v.ID] = false
	}
	return is
}

// overwrites reports whether an output has the place of an input.
func (n *Node) overwrites(input int) bool {
	for o, in := range n.Op.Overwrites {
		if in == input && o < len(n.Outputs) && n.Outputs[o] != nil {
			return true
		}
	}
	return false
}
