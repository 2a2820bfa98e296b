package planner

import "memopt/internal/graph"

// Tiled is a layer of the forward pass that is computed in tiles of rows, and in how many.
type Tiled struct {
	Node  string `json:"node"`
	Tiles int64  `json:"tiles"`
}

// Tiles lists the layers that the plan's step computes in tiles.
func (p *Plan) Tiles() (all []Tiled) {
	b, err := graph.Bind(p.Request.Dims)
	if err != nil {
		return nil
	}
	for _, n := range p.Graph.Nodes {
		if n.Op.Tiles == nil || n.Phase != graph.Forward {
			continue
		}
		if k, err := b.Eval(n.Op.Tiles(n)); err == nil {
			all = append(all, Tiled{n.Name, k})
		}
	}
	return all
}
