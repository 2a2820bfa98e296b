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

// inChunks is the model with its loss computed rows at a time; nil where
// settings leave nothing to compare, or it has no such form.
func (m *Model) inChunks(c configs.Config) *Model {
	if c.ChunkLoss != "auto" || c.Compat != "" || m.forms == nil || m.Profiled != "" || !compares(c) {
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
	return other
}

// planInChunks is inChunks for the bytes that a plan of the model was to fit in,
// or nil where nothing is to be won.
func (m *Model) planInChunks(p *planner.Plan, err error) *Model {
	var wrong *planner.BudgetError
	if err != nil && !errors.As(err, &wrong) || err == nil && p.Result.Again == 0 {
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

// chunkNote says what the loss in chunks costs, and why it was taken.
func chunkNote(p, plain *planner.Plan, err error) string {
	text := "the loss is computed some rows at a time, and its scores again for the backward pass"
	if err != nil {
		return text + ": no plan of the step as it is was found for these bytes (--chunk-loss off leaves it so)"
	}
	cost, _ := p.Cost()
	was, whole := plain.Cost()
	_, base := p.Cost()
	return fmt.Sprintf("%s, which costs %.1f %% of the step; with what runs again that is %.1f %%, and %.1f %% with all scores at once (--chunk-loss off)",
		text, 100*(base/whole-1), 100*(cost/whole-1), 100*(was/whole-1))
}
