package step

import (
	"fmt"
	"path/filepath"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/exit"
	"memopt/planner"
	"memopt/planner/cluster"
)

// SaveGraphs writes a plan's training graph twice: as it was before the plan, and rewritten by the plan.
func (m *Model) SaveGraphs(p *planner.Plan, before, after string, opts ...onnx.Option) (warnings []string, err error) {
	return stop.When(m.Ctx, func() ([]string, error) { return m.saveGraphs(p, before, after, opts) })
}

func (m *Model) saveGraphs(p *planner.Plan, before, after string, opts []onnx.Option) (warnings []string, err error) {
	defer weights.Guard(&err)()
	if m.Unchanged(&err); err != nil {
		return nil, err
	}
	if err := Runnable(p.Graph); err != nil {
		return nil, err
	}
	if o := p.Request.Outline; o != nil {
		var order []int
		if order, err = cluster.DefaultOrder(o); err == nil {
			_, err = onnx.WriteEdited(before, m.Path, o, order, onnx.Until(m.Ctx))
		}
	} else {
		err = onnx.Write(before, p.Graph, append(opts, onnx.Until(m.Ctx))...)
	}
	if err != nil {
		return nil, exit.Input(err)
	}
	return m.emit(p, after, opts)
}

// Emit writes the training graph under the plan as ONNX. A trainer's file is written back as it was read, plus
// copies of recomputed nodes, unless the plan stores values in fewer bytes; otherwise the plan's own graph is
// written. Warnings name operators for which other tools may refuse the file.
func (m *Model) Emit(p *planner.Plan, path string) (warnings []string, err error) {
	return stop.When(m.Ctx, func() ([]string, error) { return m.emit(p, path, nil) })
}

func (m *Model) emit(p *planner.Plan, path string, opts []onnx.Option) (warnings []string, err error) {
	defer weights.Guard(&err)()
	if m.Unchanged(&err); err != nil {
		return nil, err
	}
	if err := Runnable(p.Graph); err != nil {
		return nil, err
	}
	after, order, ok, err := m.edited(p)
	if err != nil {
		return nil, err
	}
	var strange []string
	if ok {
		strange, err = onnx.WriteEdited(path, m.Path, after, order, onnx.Until(m.Ctx))
	} else {
		g, wrong := p.Rewrite()
		if wrong != nil {
			return nil, wrong
		}
		strange, err = onnx.Strange(g), onnx.Write(path, g, append(opts, onnx.Until(m.Ctx))...)
	}
	if err != nil {
		return nil, exit.Input(err)
	}
	if len(strange) > 0 {
		warnings = append(warnings, fmt.Sprintf("ONNX's checker refuses %s as it refuses %s: ONNX has no %s in the opset that the file is for",
			filepath.Base(path), filepath.Base(m.Path), strings.Join(strange, ", ")))
	}
	return warnings, nil
}

// ByORT reports whether a plan of a trainer's file recomputes only what the settings request, and nothing of its
// own.
func (m *Model) ByORT(p *planner.Plan) bool {
	return p.Analysis != nil && p.Strategy == "keep-all" && len(p.Request.Again) == 0
}

// edited returns a plan as an edit of the trainer's file, if it can be one. If only the settings request
// recomputation, nodes are copied as ONNX Runtime copies them, and in its order, which places copies right before
// their first reader.
func (m *Model) edited(p *planner.Plan) (after *graph.Outline, order []int, ok bool, err error) {
	o := p.Request.Outline
	switch {
	case o == nil, p.Graph != p.Form.Whole: // the graph contains extracts, which the file has no nodes for
		return nil, nil, false, nil
	case !m.ByORT(p):
		return p.RewriteOutline(o)
	}
	after = cluster.Rewrite(p.Analysis, p.Asked, int64(m.Config.Seed))
	inOrder := cluster.DefaultOrder
	if len(p.Asked) > 0 {
		inOrder = cluster.MemoryEfficientOrder
	}
	order, err = inOrder(after)
	return after, order, true, err
}
