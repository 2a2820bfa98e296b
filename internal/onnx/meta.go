package onnx

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// Metadata for what ONNX cannot express, so that a written graph reads back the same. Every
// file that memopt writes has metaLoss, "" for no loss, and is recognized by it.
const (
	metaName    = "memopt.name"    // model: the graph's name, where ONNX forbids it
	metaLoss    = "memopt.loss"    // model: a value
	metaOutputs = "memopt.outputs" // model: how many of the outputs are the graph's
	metaUpdates = "memopt.updates" // model: pairs of state and next value
	metaGrads   = "memopt.grads"   // model: pairs of parameter and gradient
	metaRenamed = "memopt.renamed" // model: pairs of name in the file and in the graph
	metaAssumed = "memopt.assumed" // model: triples of dim, dim and node
	metaOrder   = "memopt.order"   // model: order of inputs and initializers, if not inputs first
	metaKind    = "memopt.kind"    // initializer: param, buffer, const or state
	metaPhase   = "memopt.phase"   // node: backward or update
	metaFloat   = "memopt.float."  // node: a float attribute in double precision
)

// newSuffix is appended to an initializer's name to name its next value.
const newSuffix = ".new"

var kindsByWord = map[string]graph.Kind{
	graph.Param.String(): graph.Param, graph.ModelBuffer.String(): graph.ModelBuffer, graph.Const.String(): graph.Const, graph.State.String(): graph.State,
}

var phasesByWord = map[string]graph.Phase{
	graph.Backward.String(): graph.Backward, graph.Updating.String(): graph.Updating,
}

// readFacts reads the loss, updates, gradients and so on from metadata.
func (r *reader) readFacts(top *scope) {
	g := r.b.Graph
	loss, ours := r.model.metadata[metaLoss]
	if !ours {
		r.guessFacts(top)
		return
	}
	if loss != "" {
		g.Loss = r.named(top, metaLoss, loss)
	}
	if name, ok := r.model.metadata[metaName]; ok {
		g.Name = name
	}
	for _, p := range r.tuples(metaUpdates, 2) {
		g.Updates = append(g.Updates, graph.Update{State: r.named(top, metaUpdates, p[0]), New: r.named(top, metaUpdates, p[1])})
	}
	for _, p := range r.tuples(metaGrads, 2) {
		g.Grads = append(g.Grads, graph.Grad{Param: r.named(top, metaGrads, p[0]), Grad: r.named(top, metaGrads, p[1])})
	}
	for _, p := range r.tuples(metaRenamed, 2) {
		v := r.named(top, metaRenamed, p[0])
		if p[1] == "" || g.ByName(p[1]) != nil {
			fail("metadata %s: the name %s is not free", metaRenamed, quote(p[1]))
		}
		node := ""
		if v.Def != nil {
			node = v.Def.Name
		}
		g.Rename(v, p[1])
		if v.Def != nil {
			v.Def.Name = node // the file has the node's name
		}
	}
	if s, ok := r.model.metadata[metaOutputs]; ok {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > len(g.Outputs) {
			fail("metadata %s: %s is not a number of outputs", metaOutputs, quote(s))
		}
		g.Outputs = g.Outputs[:n]
	}
	r.readAssumed()
}

// named finds a value by its name in the file.
func (r *reader) named(top *scope, key, name string) *graph.Value {
	v := top.values[name]
	if v == nil {
		fail("metadata %s: no value is named %s", key, quote(name))
	}
	return v
}

// tuples reads a list of lists of n strings.
func (r *reader) tuples(key string, n int) [][]string {
	s, ok := r.model.metadata[key]
	if !ok {
		return nil
	}
	var list [][]string
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		fail("metadata %s: %v", key, err)
	}
	for _, t := range list {
		if len(t) != n {
			fail("metadata %s: %d strings where %d belong", key, len(t), n)
		}
	}
	return list
}

// readAssumed takes the file's assumptions in order, and appends others that inference found.
func (r *reader) readAssumed() {
	g := r.b.Graph
	found := g.Assumed
	g.Assumed = nil
	seen := map[[2]string]bool{}
	for _, t := range r.tuples(metaAssumed, 3) {
		var d [2]graph.Dim
		for i := range d {
			var err error
			if d[i], err = graph.ParseDim(t[i]); err != nil {
				fail("metadata %s: %s", metaAssumed, err)
			}
		}
		g.Assumed = append(g.Assumed, graph.Assume{A: d[0], B: d[1], Node: t[2]})
		seen[[2]string{d[0].String(), d[1].String()}] = true
	}
	for _, a := range found {
		if !seen[[2]string{a.A.String(), a.B.String()}] {
			g.Assumed = append(g.Assumed, a)
		}
	}
}

// guessFacts finds updates and the loss by name and type, in files that memopt did not write.
func (r *reader) guessFacts(top *scope) {
	g := r.b.Graph
	var losses []*graph.Value
	for i, name := range top.outputs {
		v := g.Outputs[i]
		base, isNew := strings.CutSuffix(name, newSuffix)
		state := top.values[base]
		if isNew && state != nil && state.Data != nil && state.Type == v.Type && state.Shape.Equal(v.Shape) &&
			!slices.ContainsFunc(g.Updates, func(u graph.Update) bool { return u.State == state }) {
			g.Updates = append(g.Updates, graph.Update{State: state, New: v})
			continue
		}
		if v.Type.IsFloat() && v.Shape.Elems().Is(1) {
			losses = append(losses, v)
		}
	}
	if len(losses) == 1 {
		g.Loss = losses[0]
	}
	r.borderFacts(top)
	if r.border() == nil {
		r.runningUpdates()
	}
	g.Assumed = append(g.Assumed, r.same...)
}

// restoreOrder restores the order of inputs and initializers that the file records, after
// FoldInts.
func (r *reader) restoreOrder() {
	s, ok := r.model.metadata[metaOrder]
	if !ok {
		return
	}
	var names []string
	if err := json.Unmarshal([]byte(s), &names); err != nil {
		fail("metadata %s: %v", metaOrder, err)
	}
	place := make(map[string]int, len(names))
	for i, n := range names {
		place[n] = i
	}
	at := func(v *graph.Value) int {
		if i, ok := place[v.Name]; ok {
			return i
		}
		return len(names)
	}
	g := r.b.Graph
	var slots []int
	var given []*graph.Value
	for i, v := range g.Values {
		if v.Kind != graph.Computed {
			slots, given = append(slots, i), append(given, v)
		}
	}
	slices.SortStableFunc(given, func(a, b *graph.Value) int { return at(a) - at(b) })
	for i, v := range given {
		g.Values[slots[i]] = v
		v.ID = int32(slots[i])
	}
}
