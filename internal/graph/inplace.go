package graph

import "slices"

// OverInput reports whether the operator may write output 0 over input k.
func (n *Node) OverInput(k int) bool {
	ports, _ := n.Op.Ports()
	return slices.ContainsFunc(n.Op.InPlace, func(i int) bool { // of any number of inputs the first stands for all
		return i == k || i < k && i < len(ports) && ports[i].Variadic
	})
}

// Overwritable lists the inputs over which the operator may write output 0, if they die there and the sizes agree: those
// whose storage it reads through no other input.
func Overwritable[S comparable](n *Node, storage func(v *Value) S) (inputs []*Value) {
	if len(n.Op.InPlace) == 0 || n.Outputs[0] == nil {
		return nil
	}
	for k, v := range n.Inputs {
		if v == nil || !n.OverInput(k) {
			continue
		}
		shared := func(w *Value) bool { return w != nil && storage(w) == storage(v) }
		if !slices.ContainsFunc(n.Inputs[:k], shared) && !slices.ContainsFunc(n.Inputs[k+1:], shared) {
			inputs = append(inputs, v)
		}
	}
	return inputs
}
