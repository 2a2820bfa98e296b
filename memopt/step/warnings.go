package step

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// strayDims warns of dims in the settings that the model does not have.
func (m *Model) strayDims() (out []string) {
	has, also := m.Graph.Names(), []string(nil)
	for _, a := range m.Graph.Assumed {
		also = append(also, a.A.Names()...)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Config.Dims)) {
		if slices.Contains(has, name) || slices.Contains(also, name) {
			continue
		}
		out = append(out, m.noDim(name))
	}
	return out
}

// noDim says that the model has no such dim, and suggests another.
func (m *Model) noDim(name string) string {
	has := m.Graph.Names()
	hint := "it has no named dims"
	if near, ok := configs.Nearest(name, has); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(has) > 0 {
		hint = "its dims are " + strings.Join(has, ", ")
	}
	return fmt.Sprintf("the model has no dim %q: %s", name, hint)
}

// idleSettings warns of settings that shape the step if the file already contains one.
func (m *Model) idleSettings() (out []string) {
	if !m.Steps.Brought() {
		return nil
	}
	for _, s := range m.Config.NonDefaults() {
		if !m.Steps.Recorded() && (s.Name == "shrink" || s.Name == "lossy") {
			continue
		}
		if r, _ := configs.Find(s.Name); r.Shapes && s.Source.Origin != configs.OriginPreset {
			out = append(out, fmt.Sprintf("%s: %s is ignored: the file has a backward pass of its own", s.Source, s.Name))
		}
	}
	return out
}

// attentionInPieces explains why attention was left as it is although the settings request another form.
func (m *Model) attentionInPieces(p *planner.Plan) (out []string) {
	const setting = "flash_attention"
	is := cmp.Or(p.Form.Settings[setting], m.Config.Value(setting))
	if is == "auto" || is == "off" || m.Steps.Brought() {
		return nil
	}
	for _, left := range kernels.AttentionInPieces(p.Graph) {
		more := ""
		if left.Count > 1 {
			more = fmt.Sprintf(" and %d more", left.Count-1)
		}
		out = append(out, fmt.Sprintf("%s leaves the attention of node %q%s in pieces: %s", m.Config.Say(setting, is), left.Node.Name, more, left.Why))
	}
	return out
}

// storedStatistics warns of nodes that normalize with stored statistics in a training step, as in evaluation.
// PyTorch's exporter writes them that way by default, whatever the model's mode.
func (m *Model) storedStatistics() []string {
	var stored []*graph.Node
	for _, n := range m.Graph.Nodes {
		if n.Op.UsesRunning != nil && n.Phase == graph.Forward && n.Op.UsesRunning(n) {
			stored = append(stored, n)
		}
	}
	if len(stored) == 0 || m.Steps.Brought() {
		return nil
	}
	who := fmt.Sprintf("node %q normalizes", stored[0].Name)
	if more := len(stored) - 1; more > 0 {
		who = fmt.Sprintf("node %q and %d more normalize", stored[0].Name, more)
	}
	return []string{who + " with stored statistics, not with those of the batch, as when a model is evaluated: training_mode is 0 in the file " +
		"(PyTorch writes 1 for torch.onnx.export(…, dynamo=False, training=torch.onnx.TrainingMode.TRAINING))"}
}

// indexRange warns of nodes whose indices are out of range under the dims of a plan.
func (m *Model) indexRange(p *planner.Plan) []string { return kernels.Beyond(m.Graph, p.Request.Dims) }

// suggest adds suggestions to the planner's warnings of unknown clusters.
func suggest(p *planner.Plan, requests []configs.Request) {
	ids := p.ClusterIDs()
	for _, q := range requests {
		if slices.Contains(ids, q.Cluster) {
			continue
		}
		hint := "; memopt plan without it lists those there are"
		if near, ok := configs.NearestCluster(q.Cluster, ids); ok {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		for i, w := range p.Warnings {
			if strings.HasSuffix(w, fmt.Sprintf("cluster %q is not in this graph", q.Cluster)) {
				p.Warnings[i] = w + hint
			}
		}
	}
}
