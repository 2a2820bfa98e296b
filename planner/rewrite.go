package planner

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/planner/rewrite"
)

// Rewrite is the plan as a graph of its own; see rewrite.Graph.
func (p *Plan) Rewrite() (*graph.Graph, error) {
	r, err := p.rewrite()
	if err != nil {
		return nil, err
	}
	return r.Graph, nil
}

// RewriteOutline is the plan as an edit of the file that its graph was read from; see rewrite.Rewritten.Outline.
func (p *Plan) RewriteOutline(o *graph.Outline) (after *graph.Outline, order []int, ok bool, err error) {
	r, err := p.rewrite()
	if err != nil {
		return nil, nil, false, err
	}
	after, order, ok = r.Outline(p.Graph, o)
	return after, order, ok, nil
}

func (p *Plan) rewrite() (*rewrite.Rewritten, error) {
	if len(p.Moves) > 0 {
		return nil, fmt.Errorf("the plan moves %d values to the %s and back, which no graph can say: plan without offload to export it", len(p.Moves), p.Moved.Place)
	}
	var ran []bool // by operator
	return rewrite.Graph(rewrite.Plan{Graph: p.Graph, Context: p.m.ctx,
		Steps: func(yield func(*graph.Node, bool) bool) {
			ran = make([]bool, len(p.m.nodes))
			for _, s := range p.Steps {
				if !yield(p.Graph.Nodes[s.Node], s.Again) {
					return
				}
				ran[p.m.op[s.Node]] = true
			}
		},
		Stays: func(v *graph.Value) bool {
			k := p.m.number[v.ID]
			return k >= 0 && p.m.stays(k, ran)
		}})
}
