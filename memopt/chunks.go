package memopt

import (
	"errors"
	"fmt"
	"slices"

	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/planner"
)

// fusions picks the operators that may stand for pieces: those that compute
// scores twice, so that they are never all there, only if settings say so.
func (m *Model) fusions(op *graph.Op) bool {
	switch op {
	case kernels.LinearCrossEntropy:
		return m.Config.ChunkLoss == "on"
	case kernels.FlashAttention:
		return m.Config.Flash == "on"
	}
	return kernels.Fusions(op)
}

// inChunks is the model with its loss computed rows at a time, whose costs are
// told beside the model as it is; nil where settings choose themselves, or it
// has no such form.
func (m *Model) inChunks(c configs.Config) *Model {
	if c.ChunkLoss != "auto" || c.Compat != "" || m.forms == nil || m.Profiled != "" {
		return nil
	}
	kind, _, err := findDevice(c.Device)
	if err != nil || kind.lowered { // the operator has no kernels
		return nil
	}
	c.ChunkLoss = "on"
	other, err := m.other(c)
	if err != nil || !slices.ContainsFunc(other.Graph.Nodes, func(n *graph.Node) bool { return n.Op == kernels.LinearCrossEntropy }) {
		return nil
	}
	other.plain = m.forms.exact
	return other
}

// chunked says what inChunks does to a step.
const chunked = "the loss is computed some rows at a time, and its scores again for the backward pass"

// planInChunks is inChunks for the bytes that a plan of the model was to fit in,
// or nil where nothing is to be won.
func (m *Model) planInChunks(p *planner.Plan, err error) *Model {
	var wrong *planner.BudgetError
	if !compares(m.Config) || err != nil && !errors.As(err, &wrong) || err == nil && p.Result.Again == 0 {
		return nil
	}
	c := m.Config
	if room, limited := roomOf(p, wrong); limited { // a share is one of the model as it is
		c.Budget, c.ActivationBudget = configs.Budget{}, configs.Budget{Bytes: room}
	}
	return m.inChunks(c)
}

// roomOf is the arena bytes that a plan was to fit in.
func roomOf(p *planner.Plan, wrong *planner.BudgetError) (bytes int64, limited bool) {
	if wrong != nil {
		return wrong.Want, wrong.Want > 0
	}
	return p.Room()
}

// bestForm is best, in the form of the loss that is the better one.
func (m *Model) bestForm() (*planner.Plan, error) {
	p, err := m.best()
	other := m.planInChunks(p, err)
	if other == nil {
		return p, err
	}
	q, wrong := other.best()
	if !m.prefers(p, err, q, wrong) {
		return p, err
	}
	if wrong == nil {
		q.Warnings = append(q.Warnings, chunkNote(q, p))
	}
	*m = *other
	return q, wrong
}

// chunkNote says what a plan with the loss in chunks spends on that, and what
// the plan without would cost, if there is any.
func chunkNote(p, plain *planner.Plan) string {
	share := func(of float64) string { return fmt.Sprintf("%.1f %%", 100*of) }
	instead := "no plan was found with all scores at once"
	if plain != nil {
		instead = "it would be " + share(plain.Result.Overhead) + " with all scores at once"
	}
	return fmt.Sprintf("%s: that alone costs %s of the extra %s; %s (--chunk-loss off)", chunked, share(p.FormOverhead()), share(p.Result.Overhead), instead)
}
