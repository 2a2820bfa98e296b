package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// place is an output of a node. A storage is identified by the place that owns it.
type place struct{ node, out int }

// outside is the storage of values that no node computes.
var outside = place{-1, 0}

// prober is the state of an analysis. Slices are indexed by node unless noted.
type prober struct {
	a        *Analysis
	level    int
	theirs   bool           // a trainer's program, for which ONNX Runtime finds clusters, too
	at       []int          // position in the order
	stashed  [][]int        // outputs that the backward pass reads
	credit   [][]int        // those of them whose recomputation saves bytes
	returned []bool         // by value
	held     map[place]bool // storage of returned values
	batch    []bool         // depends on inputs of the step
	fixed    bool           // corrected rules: no symbolic sizes
	kept     map[place]bool // storage that crosses from layer to layer
	weight   []bool         // by value
	trained  []bool         // by value: weights whose gradient is returned
	norms    []bool         // compat: boundary nodes

	work  []place // scratch of grow
	own   []place
	seen  []int // the last round that reached the node
	round int
	first map[place]int // corrected rules: the entry that a shared storage is credited to
	views map[place][]int
	total graph.Dim // bytes of all credited outputs
	sized []answer  // by value: small's answer
}

// answer is a cached answer.
type answer uint8

const (
	unasked answer = iota
	no
	yes
)

// smallest is the number of elements from which on a cluster extends through a tensor of fixed
// shape.
const smallest = 1 << 20

func newProber(a *Analysis, b passes) *prober {
	n := len(a.Outline.Nodes)
	p := &prober{a: a, level: a.Rules.ProbeLevel, theirs: b.weights == nil, at: make([]int, n), stashed: make([][]int, n),
		returned: make([]bool, len(a.wiring.made)), kept: map[place]bool{}, norms: make([]bool, n),
		seen: make([]int, n), first: map[place]int{}, views: map[place][]int{}, sized: make([]answer, len(a.wiring.made))}
	if !a.Rules.compat() {
		p.level = 1
	}
	for k, i := range a.Order {
		p.at[i] = k
	}
	for _, id := range b.returned {
		if id >= 0 {
			p.returned[id] = true
		}
	}
	for _, i := range a.Order[:a.Yield+1] {
		stop.Poll(a.Rules.Context)
		for _, e := range a.wiring.out[i] {
			if p.at[e.to] > a.Yield && !slices.Contains(p.stashed[i], e.out) {
				p.stashed[i] = append(p.stashed[i], e.out)
			}
		}
		slices.Sort(p.stashed[i])
	}
	p.credit = p.stashed
	if p.weight, p.trained = b.weights, b.trained; p.weight == nil {
		p.guessWeights()
	}
	p.findBatch()
	if !a.Rules.compat() {
		p.fixed = !slices.ContainsFunc(a.Outline.Inputs, p.symbolic)
		p.mend()
	}
	return p
}

func (p *prober) run() {
	if p.a.Rules.Boundary && p.a.Yield >= 0 {
		p.boundaries()
	}
	for _, i := range p.a.Order[:p.a.Yield+1] {
		if len(p.credit[i]) == 0 || !p.may(i) {
			continue
		}
		if p.crosses(i) {
			if !p.a.Rules.compat() {
				p.drop(i, "it crosses from layer to layer, where values are kept; it is offered without boundaries")
			}
			continue
		}
		if plan := p.plan(i); len(plan.Options) > 0 {
			p.a.Plans = append(p.a.Plans, plan)
		}
	}
}

// forward reports whether a node is in the forward pass.
func (p *prober) forward(i int) bool { return p.at[i] <= p.a.Yield }

// isStashed reports whether the backward pass reads an output.
func (p *prober) isStashed(at place) bool {
	return at.node >= 0 && p.forward(at.node) && slices.Contains(p.stashed[at.node], at.out)
}

// storage is the storage of a value.
func (p *prober) storage(name string) place {
	if at, made := p.a.wiring.maker(name); made {
		return p.storageOf(at)
	}
	return outside
}

// storageOf is the storage of an output.
func (p *prober) storageOf(at place) place {
	for {
		n := &p.a.Outline.Nodes[at.node]
		if at.out != 0 || len(n.Inputs) == 0 || n.Inputs[0] == "" || !(p.shown(at.node) || p.overwrites(at.node)) {
			return at
		}
		if from, made := p.a.wiring.source(at.node, 0); made {
			at = from
		} else {
			return outside
		}
	}
}

// overwrites reports whether a node runs in place under ONNX Runtime's rules: output 0 replaces
// input 0, which a node computes and nothing else reads under any name. The corrected rules have no
// such nodes, as the planner decides about placement.
func (p *prober) overwrites(i int) bool {
	n := &p.a.Outline.Nodes[i]
	if !p.a.Rules.compat() || !overwrites[n.Op] || n.Domain != "" {
		return false
	}
	for name := n.Inputs[0]; ; {
		at, made := p.a.wiring.maker(name)
		if !made || p.returned[p.a.wiring.number(name)] {
			return false
		}
		readers := 0
		for _, e := range p.a.wiring.out[at.node] {
			if e.out == at.out {
				readers++
			}
		}
		if readers != 1 {
			return false
		}
		if at.out != 0 || !p.shown(at.node) {
			return true
		}
		name = first(p.a.Outline.Nodes[at.node].Inputs)
	}
}

// mend leaves out stashed outputs whose recomputation saves nothing: values that the caller holds
// anyway, shapes, and views of inputs. Storage that several outputs view is credited to the first
// of them.
func (p *prober) mend() {
	p.credit = make([][]int, len(p.stashed))
	p.held = map[place]bool{}
	for id, is := range p.returned {
		if at := p.a.wiring.made[id]; is && at != outside {
			if s := p.storageOf(at); s != outside && p.forward(s.node) {
				p.held[s] = true
			}
		}
	}
	times := map[graph.Dim]int64{} // by size of credited outputs
	for _, i := range p.a.Order[:p.a.Yield+1] {
		n := &p.a.Outline.Nodes[i]
		for _, out := range p.stashed[i] {
			s := p.storageOf(place{i, out})
			switch {
			case s == outside:
				p.drop(i, "it is a view of an input of the step")
				continue
			case p.held[s]:
				p.drop(i, "the step returns it, so it is kept anyway")
				continue
			case measures[n.Op]:
				continue
			}
			if first, ok := p.first[s]; ok && first != i {
				p.views[s] = append(p.views[s], i)
				p.drop(i, fmt.Sprintf("it is a view of the output of node %q, and is recomputed with that", p.a.Outline.Nodes[first].Name))
				continue
			}
			p.first[s] = i
			p.credit[i] = append(p.credit[i], out)
		}
		for _, out := range p.credit[i] {
			times[p.a.bytesOf(n.Outputs[out])]++
		}
	}
	for bytes, n := range times {
		p.total = p.total.Add(bytes.Mul(graph.Num(n)))
	}
}

// drop notes a plan that ONNX Runtime would have for a node.
func (p *prober) drop(entry int, why string) {
	if !p.may(entry) {
		return
	}
	if d := (Dropped{p.upstream(entry, Full), why}); d.ID != "" && !slices.Contains(p.a.Dropped, d) {
		p.a.Dropped = append(p.a.Dropped, d)
	}
}

// guessWeights tells weights from inputs in a file that lists both as inputs: a weight's gradient
// is an output of the program, or its shape is fixed while others are not.
func (p *prober) guessWeights() {
	o := p.a.Outline
	p.weight, p.trained = make([]bool, len(p.a.wiring.made)), make([]bool, len(p.a.wiring.made))
	mark := func(of []bool, name string) {
		if id := p.a.wiring.number(name); id >= 0 { // −1: no node reads it
			of[id] = true
		}
	}
	inputs := map[string]bool{}
	for _, name := range o.Inputs {
		inputs[name] = true
	}
	for _, name := range o.Outputs {
		if param, ok := strings.CutSuffix(name, "_grad"); ok && inputs[param] && !p.symbolic(param) {
			mark(p.weight, param)
			mark(p.trained, param)
		}
	}
	if !slices.ContainsFunc(o.Inputs, p.symbolic) {
		return
	}
	for _, name := range o.Inputs {
		if o.Values[name].Known && !p.symbolic(name) {
			mark(p.weight, name)
		}
	}
}

// symbolic reports whether a value's shape has a named dim.
func (p *prober) symbolic(name string) bool {
	return slices.ContainsFunc(p.a.Outline.Values[name].Shape, func(d graph.Dim) bool { _, fixed := d.Const(); return !fixed })
}

// findBatch marks nodes that depend on inputs of the step.
func (p *prober) findBatch() {
	o := p.a.Outline
	p.batch = make([]bool, len(o.Nodes))
	for _, i := range p.a.Order[:p.a.Yield+1] {
		for k, id := range p.a.wiring.inputs[i] {
			at, made := p.a.wiring.source(i, k)
			p.batch[i] = p.batch[i] || made && p.batch[at.node] || !made && id >= 0 && !p.weight[id]
		}
	}
}

// upstream is ONNX Runtime's ID of an entry's cluster, "" if it has none.
func (p *prober) upstream(entry, kind int) string {
	up := *p
	up.a = &Analysis{Outline: p.a.Outline, Order: p.a.Order, Yield: p.a.Yield, wiring: p.a.wiring, inferred: p.a.inferred, sizes: p.a.sizes, ids: p.a.ids,
		Rules: Rules{ProbeLevel: 1, Compat: "1.19"}}
	up.credit = p.stashed
	g := up.grow(entry, kind == Compromise)
	p.round = up.round
	if !g.ok {
		return ""
	}
	return p.a.idOf(g.nodes)
}

// plan lists the options of an entry.
func (p *prober) plan(entry int) NodePlan {
	stop.Poll(p.a.Rules.Context)
	plan := NodePlan{Entry: entry}
	g := p.grow(entry, false)
	if g.ok {
		plan.Options = append(plan.Options, p.option(entry, Full, g))
	}
	if g.shrinks {
		c := p.grow(entry, true)
		if c.ok && (p.a.Rules.compat() || !g.ok || !slices.Equal(c.nodes, g.nodes)) {
			plan.Options = append(plan.Options, p.option(entry, Compromise, c))
		}
	}
	if !p.a.Rules.compat() {
		plan.Options = slices.DeleteFunc(plan.Options, func(o Option) bool {
			if !p.pointless(&o) {
				return false
			}
			p.a.Dropped = append(p.a.Dropped, Dropped{p.a.ID(&o), "it saves next to nothing compared with what it has to keep and run"})
			return true
		})
		for k := range plan.Options {
			o := &plan.Options[k]
			if up := p.upstream(entry, o.Type); up != p.a.ID(o) {
				o.Spelling = up
			}
		}
	}
	return plan
}

// growth is a cluster under construction.
type growth struct {
	nodes    []int // in execution order
	ok       bool
	shrinks  bool     // a node has an input smaller than its output
	keeps    []string // values that have to be kept instead
	save, of int64
}

// grow walks from the entry's stashed outputs to the nodes they depend on, up to values that are
// available anyway. A compromise also ends at the first node that makes a larger value of a smaller
// one.
func (p *prober) grow(entry int, compromise bool) growth {
	p.round++
	g := growth{ok: true, save: 1, of: 1}
	work, own := p.work[:0], p.own[:0] // own is the storage that the plan frees
	for _, out := range p.credit[entry] {
		work = append(work, place{entry, out})
		own = append(own, p.storageOf(place{entry, out}))
	}
	defer func() { p.work, p.own = work, own }()
	for next := 0; next < len(work); next++ {
		item := work[next]
		i := item.node
		if p.seen[i] == p.round {
			continue
		}
		if i != entry {
			stop, ok := p.stops(item, own)
			if !ok {
				g.ok = false
				return g
			}
			if stop {
				continue
			}
		}
		// Not before stops: another output of the node may be available.
		p.seen[i] = p.round
		g.nodes = append(g.nodes, i)
		if save, of := p.shrink(i); save > 0 {
			g.shrinks = true
			if compromise {
				g.save, g.of = save, of
				continue
			}
		}
		ignored := p.ignored(i)
		for _, e := range p.a.wiring.into[i] {
			stop := slices.Contains(ignored, e.in) || p.small(i, e.in)
			if !p.a.Rules.compat() && slices.Contains(own, p.storageOf(place{e.from, e.out})) {
				stop = false
			}
			if !stop {
				work = append(work, place{e.from, e.out})
			}
		}
	}
	slices.SortFunc(g.nodes, func(x, y int) int { return p.at[x] - p.at[y] })
	g.keeps = p.keeps(g.nodes, compromise)
	return g
}

// stops reports whether a cluster ends in front of an output, because that is available, and
// whether it can exist at all. To ONNX Runtime all outputs of a node are available if one is
// stashed. The corrected rules look at the output itself, except for nodes that cannot run again:
// their output is kept, and counted in Keeps.
func (p *prober) stops(at place, own []place) (stop, ok bool) {
	n := &p.a.Outline.Nodes[at.node]
	if p.a.Rules.compat() {
		stop = len(p.stashed[at.node]) > 0
		return stop, stop || p.may(at.node)
	}
	s := p.storageOf(at)
	_, read := p.first[s]
	switch {
	case slices.Contains(own, s): // a storage to be freed is not available
		return false, p.may(at.node)
	case p.isStashed(at), measures[n.Op]:
		return true, true
	case s == at && (read || p.held[s] || p.kept[s]): // views of it cost nothing
		return true, true
	case len(p.stashed[at.node]) > 0 && !p.may(at.node):
		return true, true
	}
	return false, p.may(at.node)
}

// small reports whether an input has a fixed shape of few elements. In a program without named dims
// a fixed shape does not tell constants from inputs of the step: a float value that depends on
// these has to be tiny.
func (p *prober) small(node, in int) bool {
	id := p.a.wiring.inputs[node][in]
	if p.sized[id] == unasked {
		p.sized[id] = no
		if p.isSmall(p.a.Outline.Nodes[node].Inputs[in]) {
			p.sized[id] = yes
		}
	}
	return p.sized[id] == yes
}

func (p *prober) isSmall(name string) bool {
	v := p.a.value(name)
	if at, made := p.a.wiring.maker(name); made && p.fixed && p.batch[at.node] && v.Type.IsFloat() {
		bytes, ok := p.a.bytesOf(name).Const()
		return ok && v.Known && bytes <= tiny
	}
	n := int64(1)
	for _, d := range v.Shape {
		c, fixed := d.Const()
		if !fixed || c >= smallest {
			return false
		}
		if n *= c; n >= smallest {
			return false
		}
	}
	return v.Known
}

// shrink is the share of a node's output, as a fraction, that keeping its input instead saves: a
// cast from a smaller type.
func (p *prober) shrink(i int) (save, of int64) {
	n := &p.a.Outline.Nodes[i]
	if n.Op != "Cast" || n.Domain != "" || len(n.Inputs) == 0 || len(n.Outputs) == 0 {
		return 0, 1
	}
	in, out := p.a.value(n.Inputs[0]).Type.Size(), p.a.value(n.Outputs[0]).Type.Size()
	if in == 0 || out <= in {
		return 0, 1
	}
	return out - in, out
}

// keeps names the values of the forward pass that nodes read and the backward pass does not. The
// value that a compromise starts from is accounted for by its ratio.
func (p *prober) keeps(nodes []int, compromise bool) (names []string) {
	for _, i := range nodes {
		save, _ := p.shrink(i)
		for k, name := range p.a.Outline.Nodes[i].Inputs {
			at, made := p.a.wiring.source(i, k)
			if !made || slices.Contains(nodes, at.node) || slices.Contains(names, name) || compromise && save > 0 && k == 0 {
				continue
			}
			s := p.storageOf(at)
			if _, read := p.first[s]; s != outside && !p.isStashed(at) && !p.held[s] && !read {
				names = append(names, name)
			}
		}
	}
	return names
}

// option makes an Option of a growth.
func (p *prober) option(entry, kind int, g growth) Option {
	n := &p.a.Outline.Nodes[entry]
	o := Option{Type: kind, Nodes: g.nodes, Ratio: float64(g.save) / float64(g.of), Keeps: g.keeps, save: g.save, of: g.of}
	for _, i := range g.nodes {
		o.Batch = o.Batch || p.batch[i]
		o.Beyond = o.Beyond || p.theirs && allowed(&p.a.Outline.Nodes[i], p.level) == nil
	}
	for _, out := range p.credit[entry] {
		name := n.Outputs[out]
		s := StashedOutput{Index: out, Name: name, Type: p.a.value(name).Type, Reused: -1}
		s.Shape, s.bytes = p.shapeText(entry, name)
		at := p.storageOf(place{entry, out})
		s.Shows = at != outside && at.node != entry
		if s.Shows && !slices.Contains(g.nodes, at.node) {
			s.Reused = at.node
		}
		o.Outputs = append(o.Outputs, s)
		o.Views = p.addViews(o.Views, p.views[at], g.nodes)
	}
	return o
}

// addViews adds views of recomputed values, and the views between, in execution order.
func (p *prober) addViews(all, views, nodes []int) []int {
	for _, i := range views {
		for p.shown(i) && !slices.Contains(all, i) && !slices.Contains(nodes, i) {
			all = append(all, i)
			at, made := p.a.wiring.source(i, 0)
			if !made {
				break
			}
			i = at.node
		}
	}
	slices.SortFunc(all, func(x, y int) int { return p.at[x] - p.at[y] })
	return all
}

// shapeText is ONNX Runtime's text of an output's shape, and the output's bytes.
func (p *prober) shapeText(node int, name string) (string, graph.Dim) {
	v := p.a.value(name)
	kind := v.Type
	n := &p.a.Outline.Nodes[node]
	if from := p.a.value(first(n.Inputs)); n.Op == "Reshape" && n.Domain == "" && v.Known && slices.Contains(v.Spelled, "") &&
		from.Known && !slices.Contains(from.Spelled, "") {
		v = from
	}
	if !v.Known {
		return "unknown", graph.Sym("unknown").Mul(graph.Num(kind.Size()))
	}
	size := p.a.sizes.of(v.Shape, kind)
	if v.Spelled != nil {
		return spell(v.Shape, v.Spelled), size.bytes
	}
	return size.text, size.bytes
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func spell(s graph.Shape, spelled []string) string {
	if len(s) == 0 {
		return "(((1)))"
	}
	parts := make([]string, len(s))
	for i, d := range s {
		text := d.String()
		if spelled != nil && spelled[i] != "" {
			// A text that is not a formula stays a quoted name.
			if as := strings.TrimSpace(spelled[i]); as != text {
				if _, err := ParseSaving(as); err == nil {
					text = as
				}
			}
		}
		parts[i] = "(" + text + ")"
	}
	return "(" + strings.Join(parts, "*") + ")"
}

// tiny is the number of bytes up to which a value is not worth a plan: allocators round up to it.
const tiny = 256

// pointless reports whether an option saves nothing or next to nothing: the values that it keeps
// instead are as large, or it saves a few bytes whatever the batch, such as the lengths noted by a
// concatenation.
func (p *prober) pointless(o *Option) bool {
	if len(o.Outputs) == 0 {
		return true
	}
	saved := graph.Num(0)
	for _, s := range o.Outputs {
		saved = saved.Add(s.bytes)
	}
	if n, fixed := saved.Const(); fixed && n <= tiny {
		if all, fixed := p.total.Const(); !fixed || n*100 < all {
			return true
		}
	}
	if len(o.Keeps) == 0 && o.save == o.of {
		n, fixed := saved.Const()
		return fixed && n <= 0
	}
	kept := graph.Num(0)
	for _, name := range o.Keeps {
		kept = kept.Add(p.a.bytesOf(name))
	}
	c, known := o.scale(saved).Sub(kept).Compare(graph.Num(0))
	return known && c <= 0
}

// scale is the share of d that the option saves.
func (o *Option) scale(d graph.Dim) graph.Dim {
	if o.save == o.of {
		return d
	}
	return d.Mul(graph.Num(o.save)).FloorDiv(graph.Num(o.of))
}

// outputText is ONNX Runtime's text of an output's saving.
func (o *Option) outputText(s StashedOutput) string {
	if s.Reused >= 0 {
		return "0"
	}
	return "(" + s.Shape + " * " + strconv.FormatInt(s.Type.Size(), 10) + " * " + strconv.FormatFloat(o.Ratio, 'f', 6, 64) + ")"
}
