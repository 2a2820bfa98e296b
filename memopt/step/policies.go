package step

import (
	"errors"
	"fmt"
	"math"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/exit"
	"memopt/memopt/policy"
	"memopt/planner"
)

// Compared is another trainer's policy beside plans of the same step.
type Compared struct {
	From, Says string
	Lost       []string // what the policy says that is not priced
	Regions    int      // stretches that run again as one
	Policy     planner.Checkpointed
	Offload    *planner.Offloaded // what it moves without a checkpoint; nil if it moves nothing so
	// SameBytes needs no more bytes than the policy, SameTime no more time; nil where no plan was found.
	SameBytes, SameTime *planner.Plan
	Alone               bool                 // plans were not asked for
	Kept                planner.Checkpointed // everything kept
	Floor               planner.Floor
	Unit                string // of costs
}

// Against prices the policy in a file on the model's step, and unless alone asks for plans of the same bytes and of the same
// time.
func (m *Model) Against(path string, alone bool) (*Compared, error) {
	return stop.When(m.Ctx, func() (*Compared, error) { return m.against(path, alone) })
}

func (m *Model) against(path string, alone bool) (c *Compared, err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	p, err := policy.Read(path)
	if err != nil {
		return nil, exit.Input(err)
	}
	if err := m.sized(m.Config.Dims); err != nil {
		return nil, err
	}
	own, err := m.Steps.Own(m.Ask())
	if err != nil {
		return nil, err
	}
	nodes := PolicyNodes(own.Graph)
	regions, err := p.Regions(nodes)
	if err != nil {
		return nil, exit.Input(fmt.Errorf("%s: %w", path, err))
	}
	c = &Compared{From: p.From, Says: p.Says, Lost: append(p.Lost, p.Unmet(nodes)...), Regions: len(regions), Unit: m.Unit()}
	r := m.request()
	r.Budget, r.ActivationBudget, r.MaxOverhead = planner.Size{}, planner.Size{}, 0
	if m.Priced != nil && m.pricedAgain != nil { // a policy's regions are run again by the trainer
		r.Profile = m.pricedAgain
	}
	if c.Policy, err = planner.UnderRegions(own.Graph, r, regions); err != nil {
		return nil, exit.Classify(err)
	}
	if p.Offload != nil {
		moved, err := planner.UnderOffload(own.Graph, r, *p.Offload)
		if err != nil {
			return nil, exit.Input(fmt.Errorf("%s: %w", path, err))
		}
		c.Offload, c.Policy.Point, c.Policy.Moved = &moved, moved.Point, moved.Moved
	}
	if p.Away && c.Policy.Moved == 0 {
		c.Lost = append(c.Lost, "what layers keep is moved to the host: it is priced as kept on the device")
	}
	if c.Kept, err = planner.UnderRegions(own.Graph, r, nil); err != nil {
		return nil, exit.Classify(err)
	}
	if c.Alone = alone; alone {
		return c, nil
	}
	if c.SameBytes, err = m.planFor(func(a *planner.Request) { a.ActivationBudget = planner.Size{Bytes: c.Policy.Arena} }); err != nil {
		return nil, err
	}
	c.SameTime, err = m.planFor(func(a *planner.Request) {
		a.MaxOverhead = max(c.Policy.Overhead*(1+1e-9), math.SmallestNonzeroFloat64)
	})
	return c, err
}

// planFor is the plan of another request, or nil where there is none.
func (m *Model) planFor(change func(*planner.Request)) (*planner.Plan, error) {
	ask := m.Ask()
	ask.Budget, ask.ActivationBudget, ask.MaxOverhead = planner.Size{}, planner.Size{}, 0
	change(&ask.Request)
	p, err := m.Steps.Best(ask)
	var none *planner.BudgetError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.Classify(err)
	}
	p.Trains = m.Trains()
	return p, nil
}

// PolicyNodes are the forward nodes of a graph as policies know them.
func PolicyNodes(g *graph.Graph) (all []*policy.Node) {
	for _, n := range g.Nodes {
		if n.Phase != graph.Forward || n.Op.View {
			continue
		}
		line := graph.ParseLine(n.String())
		x := policyNode(n.ID, line, n.Op.Class())
		for _, v := range n.Outputs {
			if v != nil {
				x.Outputs = append(x.Outputs, v.Name)
			}
		}
		for _, v := range n.Inputs {
			for v != nil && v.Def != nil && v.Def.Op.View {
				v = v.Def.Inputs[0]
			}
			if v != nil && v.Kind == graph.Param {
				x.Weight = v.Shape.String()
			}
		}
		all = append(all, x)
	}
	return all
}

func policyNode(id int32, line graph.Line, class graph.KernelClass) *policy.Node {
	n := &policy.Node{ID: id, Name: line.Name, Op: line.Op, Module: line.Module, Attention: class == graph.AttentionKernel, Product: class == graph.ProductKernel}
	n.Heavy = n.Attention || n.Product || class == graph.ConvolutionKernel
	return n
}
