package planner

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/planner/formulas"
)

// Formulas says what the plan's decisions need at other sizes of the dims: one solve for every size.
func (p *Plan) Formulas() (*formulas.Formulas, error) {
	if len(p.Moves) > 0 {
		return nil, fmt.Errorf("what a plan moves elsewhere, and when, holds for its own sizes alone")
	}
	f, err := p.m.formulas(p.t)
	if err == nil {
		f.Follow()
	}
	return f, err
}

// formulas are those of a timeline, without ranges.
func (m *model) formulas(t *timeline) (*formulas.Formulas, error) {
	p := formulas.Program{Graph: m.g, Binding: m.binding, Context: m.ctx, Bytes: m.bytes, Owner: m.owner, Outside: m.fixed,
		Space: m.spaceFormula, Pinned: m.lowered,
		Steps: func(yield func(*graph.Node, bool) bool) {
			for _, s := range t.steps {
				if !yield(m.g.Nodes[s.Node], s.Again) {
					return
				}
			}
		}}
	for _, l := range t.lives {
		if !l.scratch {
			p.Lives = append(p.Lives, formulas.Life{First: l.first, Last: l.last, Value: l.owner})
		}
	}
	if m.plain != nil {
		p.Plain = m.plain.g
	}
	return formulas.Of(p)
}
