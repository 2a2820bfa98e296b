package compare

import (
	"slices"

	"memopt/internal/graph"
)

// Parting is a value at which two devices diverge: it differs by more than a limit,
// and the values that it is computed from do not. If only one element of thousands
// differs, near 0, a tie was decided differently: in Relu, pooling or an index.
type Parting struct {
	Value  string
	Node   string
	Op     string
	Shape  []int
	RelErr float64 // by norm
	Off    int     // number of elements whose relative error exceeds the limit
}

// Partings compares the values of a graph that two devices computed, by name, and lists
// where they diverge, in order.
func Partings(g *graph.Graph, ours, theirs func(name string) (*graph.Tensor, error), limit float64) (all []Parting, err error) {
	apart := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		late := slices.ContainsFunc(n.Inputs, func(v *graph.Value) bool { return apart[v] })
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			x, err := ours(v.Name)
			if err != nil {
				return nil, err
			}
			y, err := theirs(v.Name)
			if err != nil {
				return nil, err
			}
			e := RelErr(x, y, 0)
			if apart[v] = !(e <= limit); !apart[v] || late {
				continue
			}
			p := Parting{Value: v.Name, Node: n.Name, Op: n.Op.FullName(), Shape: x.Shape, RelErr: e}
			for i := range x.Len() {
				a, b := x.Float(i), y.Float(i)
				if d := a - b; a != b && !(d <= limit*max(a, -a) && -d <= limit*max(a, -a)) {
					p.Off++
				}
			}
			all = append(all, p)
		}
	}
	return all, nil
}
