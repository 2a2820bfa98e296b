package cluster

import (
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// NoBoundary is what ONNX Runtime logs when it finds no layers.
const NoBoundary = "No transformer layer boundary nodes found, this might cause memory optimization not working as expected. Please check the model and the configuration."

// boundaries finds the values that cross from layer to layer.
func (p *prober) boundaries() {
	if p.a.Rules.compat() {
		p.normsBeforeAttention()
		if len(p.a.Boundaries) == 0 {
			p.a.Warnings = append(p.a.Warnings, NoBoundary)
		}
		return
	}
	p.cuts()
}

// crosses reports whether a stashed output of a node crosses from layer to layer.
func (p *prober) crosses(i int) bool {
	for _, out := range p.stashed[i] {
		name := p.a.Outline.Nodes[i].Outputs[out]
		if p.kept[p.storage(name)] {
			return true
		}
		for _, e := range p.a.wiring.out[i] {
			if e.out == out && e.in == 0 && p.norms[e.to] {
				return true
			}
		}
	}
	return false
}

var (
	norms = map[string]bool{"LayerNormalization": true, "SkipLayerNormalization": true, "SimplifiedLayerNormalization": true,
		"SkipSimplifiedLayerNormalization": true}
	softmaxes = map[string]bool{"Softmax": true, "BiasSoftmax": true}
)

// normsBeforeAttention is ONNX Runtime's rule: the input of a normalization is kept if an Add (the
// residual) reads it too, and there is a softmax on a path from the normalization to before the
// Add.
func (p *prober) normsBeforeAttention() {
	o := p.a.Outline
	for _, i := range p.a.Order[:p.a.Yield] {
		n := &o.Nodes[i]
		if !norms[n.Op] || len(n.Inputs) == 0 {
			continue
		}
		add, norm, readers := -1, -1, 0
		for reader := range o.Nodes {
			for _, in := range o.Nodes[reader].Inputs {
				if in != n.Inputs[0] {
					continue
				}
				readers++
				switch op := o.Nodes[reader].Op; {
				case op == "Add":
					add = reader
				case norms[op]:
					norm = reader
				}
			}
		}
		if readers < 2 || add < 0 || norm < 0 || p.at[add] >= p.a.Yield || p.at[norm] >= p.a.Yield || !p.softmaxBetween(i, p.at[add]) {
			continue
		}
		p.norms[i] = true
		p.a.Boundaries = append(p.a.Boundaries, i)
		p.a.Kept = append(p.a.Kept, n.Inputs[0])
	}
}

// softmaxBetween reports whether a softmax or attention is reachable from a node before a position.
func (p *prober) softmaxBetween(node, before int) bool {
	p.round++
	for work := []int{node}; len(work) > 0; work = work[1:] {
		for _, e := range p.a.wiring.out[work[0]] {
			if p.at[e.to] >= before || p.seen[e.to] == p.round {
				continue
			}
			n := &p.a.Outline.Nodes[e.to]
			if softmaxes[n.Op] || n.Op == "PythonOp" && slices.Contains(attentions, text(n, "func_name")) {
				return true
			}
			p.seen[e.to] = p.round
			work = append(work, e.to)
		}
	}
	return false
}

// segment is a stretch of the spine between points where a single value crosses, not counting
// values beside it that cross much of the spine.
type segment struct {
	value  string   // crosses into the segment; "" for the first
	beside []string // other values that cross and are not counted
	from   int      // index in the spine
	cross  float64  // bytes of value, about
	kept   bool     // the backward pass reads value anyway
	ops    []string // sorted
	key    int      // equal for similar segments
	nodes  int
	stash  float64 // bytes in it that the backward pass reads
}

// cuts finds layers at narrow points, whatever operators they have. The spine is the nodes that
// depend on both inputs and weights and that the results depend on: gradients flow along it, masks
// and positions are off it. Where a single value of the spine crosses, all later nodes of the spine
// depend on it alone. These values divide the spine into segments; if the same segments repeat,
// each repetition is a layer, and the value that crosses into it is kept.
func (p *prober) cuts() {
	segments := p.segments()
	starts := runs(segments, 0).starts()
	if len(starts) == 0 {
		starts = stretches(segments)
	}
	for _, k := range starts {
		value := segments[k].value
		if value == "" {
			continue
		}
		p.kept[p.storage(value)] = true
		for _, name := range segments[k].beside {
			p.kept[p.storage(name)] = true
		}
		p.a.Kept = append(p.a.Kept, value)
		p.a.Boundaries = append(p.a.Boundaries, p.firstReader(value))
	}
}

// firstReader is the forward node that reads a value first.
func (p *prober) firstReader(value string) int {
	at, _ := p.a.wiring.maker(value)
	best := -1
	for _, e := range p.a.wiring.out[at.node] {
		if e.out == at.out && (best < 0 || p.at[e.to] < p.at[best]) {
			best = e.to
		}
	}
	return best
}

// spine marks the nodes that the gradients of a step flow through.
func (p *prober) spine() []bool {
	o := p.a.Outline
	reaches := make([]bool, len(o.Nodes))
	for _, i := range slices.Backward(p.a.Order[:p.a.Yield+1]) {
		reaches[i] = p.at[i] == p.a.Yield && p.a.Outline.Nodes[i].Op == border
		for _, name := range o.Nodes[i].Outputs {
			reaches[i] = reaches[i] || name != "" && p.returned[p.a.wiring.number(name)]
		}
		for _, e := range p.a.wiring.out[i] {
			reaches[i] = reaches[i] || p.forward(e.to) && reaches[e.to] && !measures[o.Nodes[e.to].Op]
		}
	}
	// A node of the spine depends on weights and on inputs of the step.
	weighed, fed := make([]bool, len(o.Nodes)), make([]bool, len(o.Nodes))
	spine := make([]bool, len(o.Nodes))
	untrained := !slices.Contains(p.trained, true)
	for _, i := range p.a.Order[:p.a.Yield+1] {
		n := &o.Nodes[i]
		if measures[n.Op] {
			continue
		}
		for k, id := range p.a.wiring.inputs[i] {
			at, made := p.a.wiring.source(i, k)
			switch {
			case made:
				weighed[i] = weighed[i] || weighed[at.node]
				fed[i] = fed[i] || fed[at.node]
			case id >= 0 && (p.trained[id] || untrained && p.weight[id]):
				weighed[i] = true
			case id >= 0 && !p.weight[id]:
				fed[i] = true
			}
		}
		spine[i] = reaches[i] && weighed[i] && fed[i] && n.Op != border
	}
	return spine
}

// backbone is the spine in order. An input of the step counts as crossing while the first layers
// read it, as a layer's output does in the next layer; masks that all layers read do not.
type backbone struct {
	nodes  []int
	beside []float64     // by index: stashed bytes of nodes off the spine since the previous node
	last   map[place]int // by storage: index of its last reader
	given  int           // index of the last reader among early readers of inputs; 0: none
}

func (p *prober) backbone() backbone {
	stop.Poll(p.a.Rules.Context)
	spine := p.spine()
	w := backbone{last: map[place]int{}}
	beside, given := 0.0, map[string][]int{}
	for _, i := range p.a.Order[:p.a.Yield+1] {
		inputs := p.a.wiring.inputs[i]
		reads := func(id int32) bool {
			return id >= 0 && p.a.wiring.made[id] != outside && spine[p.a.wiring.made[id].node]
		}
		if !spine[i] {
			if slices.ContainsFunc(inputs, reads) {
				beside += p.credited(i)
			}
			continue
		}
		for k, name := range p.a.Outline.Nodes[i].Inputs {
			switch {
			case reads(inputs[k]):
				w.last[p.storage(name)] = len(w.nodes)
			case name != "" && !p.weight[inputs[k]] && p.a.value(name).Type.IsFloat():
				given[name] = append(given[name], len(w.nodes))
			}
		}
		w.nodes, w.beside = append(w.nodes, i), append(w.beside, beside)
		beside = 0
	}
	for _, at := range given {
		if first, last := at[0], at[len(at)-1]; first < last && early*last < len(w.nodes) {
			w.given = max(w.given, last)
		}
	}
	return w
}

// early: inputs whose last reader is in the first 1/early of the spine count as inputs of the first
// layer.
const early = 4

// credited is about the bytes that a node stashes.
func (p *prober) credited(i int) (sum float64) {
	for out, made := range p.a.Outline.Nodes[i].Outputs {
		if slices.Contains(p.credit[i], out) {
			sum += p.nominal(made)
		}
	}
	return sum
}

// segments divides the spine where a single value crosses. If a few values cross nearly all of a
// long segment, it is divided as if they did not, provided that this finds layers: every layer of a
// decoder reads the encoder's result, and the last level of a U-Net that of the first.
func (p *prober) segments() []segment {
	w := p.backbone()
	return p.refined(w, p.parted(w, 0, len(w.nodes), nil))
}

func (p *prober) refined(w backbone, all []segment) []segment {
	for i := 0; i < len(all); i++ {
		s := all[i]
		if s.nodes*hidden < len(w.nodes) {
			continue
		}
		in, long := runs(all, 0), p.across(w, s)
		if in.has(i) || len(long) == len(s.beside) || len(long) > mostBeside {
			continue
		}
		parts := p.parted(w, s.from, s.from+s.nodes, long)
		parts[0].value, parts[0].cross, parts[0].kept, parts[0].beside = s.value, s.cross, s.kept, s.beside
		finer := slices.Concat(all[:i], parts, all[i+1:])
		classify(finer)
		if len(parts) > 1 && runs(finer, 0).nodes(finer) >= in.nodes(all)+(s.nodes+1)/2 {
			all = finer
			i--
		}
	}
	return all
}

// A segment of at least 1/hidden of the spine may hide layers; at most mostBeside values are
// ignored when dividing it.
const (
	hidden     = 4
	mostBeside = 8
)

// across lists the values that cross most of a segment, including those in beside: made in its
// first quarter or before, and last read in its last quarter.
func (p *prober) across(w backbone, s segment) (names []string) {
	met := map[place]bool{}
	for k := range s.from + s.nodes/4 {
		for _, name := range p.a.Outline.Nodes[w.nodes[k]].Outputs {
			if at := p.storage(name); name != "" && !met[at] && w.last[at] >= s.from+3*s.nodes/4 {
				met[at] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// parted divides the nodes [from, to) of the spine where a single value crosses, ignoring the
// values in beside.
func (p *prober) parted(w backbone, from, to int, beside []string) []segment {
	o := p.a.Outline
	ends := make([][]place, len(w.nodes))
	for s, k := range w.last {
		ends[k] = append(ends[k], s)
	}
	crossing, ignored := map[place]bool{}, map[place]bool{}
	for _, name := range beside {
		ignored[p.storage(name)] = true
	}
	for k := range from {
		for _, name := range o.Nodes[w.nodes[k]].Outputs {
			if s := p.storage(name); name != "" && !ignored[s] && w.last[s] >= from {
				crossing[s] = true
			}
		}
	}
	var all []segment
	now := segment{from: from}
	for k := from; k < to; k++ {
		stop.Poll(p.a.Rules.Context)
		n := &o.Nodes[w.nodes[k]]
		now.nodes++
		now.stash += w.beside[k] + p.credited(w.nodes[k])
		now.ops = append(now.ops, fullName(n))
		for _, s := range ends[k] {
			delete(crossing, s)
		}
		name := ""
		for _, made := range n.Outputs {
			if s := p.storage(made); made != "" && !ignored[s] && w.last[s] > k {
				crossing[s] = true
				name = made
			}
		}
		if len(crossing) == 1 && w.given <= k && name != "" && k+1 < to {
			all = append(all, now)
			at, _ := p.a.wiring.maker(name)
			now = segment{value: name, beside: beside, from: k + 1, cross: p.nominal(name), kept: p.isStashed(at)}
		}
	}
	all = append(all, now)
	for i := range all {
		slices.Sort(all[i].ops)
	}
	classify(all)
	return all
}

// like is the share of common operators from which on two segments are similar: the first block of
// a stage has an extra projection, and the last of all an extra norm.
const like = 0.8

// ending is that share for the end of the last layer, which often differs more.
const ending = 0.6

// kinds is the number of kinds of segments, the latest ones, that a segment is compared with.
const kinds = 32

// classify gives segments their keys.
func classify(all []segment) {
	var first []int // of each kind
	for i := range all {
		all[i].key = len(first)
		for key := len(first) - 1; key >= max(0, len(first)-kinds); key-- {
			if common(all[first[key]].ops, all[i].ops) >= like {
				all[i].key = key
				break
			}
		}
		if all[i].key == len(first) {
			first = append(first, i)
		}
	}
}

// common is the share of operators that two sorted lists have in common.
func common(a, b []string) float64 {
	both := 0
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch strings.Compare(a[i], b[k]) {
		case 0:
			both, i, k = both+1, i+1, k+1
		case -1:
			i++
		default:
			k++
		}
	}
	return float64(2*both) / float64(len(a)+len(b))
}

// usual is the size assumed for named dims where only ratios matter.
const usual = 64

// nominal is the bytes of a value with all dims at the usual size.
func (p *prober) nominal(name string) float64 {
	v := p.a.value(name)
	size := float64(v.Type.Size())
	for _, d := range v.Shape {
		by := map[string]graph.Dim{}
		for _, name := range d.Names() {
			by[name] = graph.Num(usual)
		}
		n, _ := d.Subst(by).Const()
		size *= float64(n)
	}
	return size
}

// runs finds the longest run of layers, and then runs before and after it that have at least
// 1/aside of its nodes: an encoder and a decoder, stages of a pyramid.
func runs(all []segment, least int) (found layered) {
	r, ok := layers(all)
	if !ok || nodes(all[r.from:r.to]) < least {
		return nil
	}
	least = max(least, nodes(all[r.from:r.to])/aside)
	found = append(runs(all[:r.from], least), r)
	for _, behind := range runs(all[r.to:], least) {
		found = append(found, behind.moved(r.to))
	}
	return found
}

// run is the segments [from, to), at some of which layers begin.
type run struct {
	from, to int
	starts   []int
}

func (r run) moved(by int) run {
	starts := slices.Clone(r.starts)
	for i := range starts {
		starts[i] += by
	}
	return run{r.from + by, r.to + by, starts}
}

type layered []run

func (s layered) has(k int) bool {
	return slices.ContainsFunc(s, func(r run) bool { return r.from <= k && k < r.to })
}

func (s layered) nodes(all []segment) (n int) {
	for _, r := range s {
		n += nodes(all[r.from:r.to])
	}
	return n
}

func (s layered) starts() (all []int) {
	for _, r := range s {
		all = append(all, r.starts...)
	}
	return all
}

// aside: a run has at least 1/aside of the nodes of the longest one.
const aside = 4

// layers finds the longest stretch in which a few segments repeat, and the segments at which
// repetitions begin. An incomplete last repetition counts if it begins like the others. If a
// repetition stashes less than what crosses between two of them, several are one layer.
func layers(all []segment) (r run, ok bool) {
	best, from, unit := 0, 0, 0
	for size := 1; size <= len(all)/2; size++ {
		for k := 0; k+2*size <= len(all); {
			n := k + size
			for n < len(all) && all[n].key == all[n-size].key {
				n++
			}
			if size > 1 && n < len(all) && (n-k)%size == size-1 && common(all[n].ops, all[n-size].ops) >= ending {
				n++
			}
			rounds := (n - k) / size
			if rounds < 2 {
				k++
				continue
			}
			if work := nodes(all[k : k+rounds*size]); work > best {
				best, from, unit = work, k, size
			}
			k = n - size + 1
		}
	}
	if best == 0 {
		return r, false
	}
	rounds := 0
	for k := from; k < len(all) && all[k].key == all[from].key; k += unit {
		rounds++
	}
	if last := all[from+(rounds-1)*unit:]; rounds > 2 && nodes(last[:alike(all[from:from+unit], last)])*2 < nodes(all[from:from+unit]) {
		rounds-- // it begins like the others, but is too short
	}
	// A layer may begin at any segment of a repetition; prefer one where the value that crosses is
	// kept anyway.
	shift := 0
	for k := range unit {
		if from+k+(rounds-1)*unit < len(all) && (all[from+k].kept || all[from+k].value == "") && all[from+k+unit].kept {
			shift = k
			break
		}
	}
	var starts []int
	stash := 0.0
	for k := from + shift; k < from+shift+rounds*unit; k += unit {
		if len(starts) == 0 || stash >= worth*all[k].cross {
			starts = append(starts, k)
			stash = 0
		}
		for _, s := range all[k:min(k+unit, len(all))] {
			stash += s.stash
		}
	}
	return run{from, min(from+shift+rounds*unit, len(all)), starts}, true
}

// alike is the number of equal segments at the beginning of two stretches.
func alike(a, b []segment) (n int) {
	for n < min(len(a), len(b)) && a[n].key == b[n].key {
		n++
	}
	return n
}

func nodes(segments []segment) (n int) {
	for _, s := range segments {
		n += s.nodes
	}
	return n
}

// worth is how much more than its crossing value a layer has to stash.
const worth = 1.5

// stretches divides a spine without repetition: a layer begins as soon as enough is stashed since
// the last one began, if enough is left behind it.
func stretches(all []segment) []int {
	var starts []int
	before, after := 0.0, 0.0
	for _, s := range all {
		after += s.stash
	}
	for k, s := range all {
		if k > 0 && s.kept && min(before, after) >= wide*s.cross {
			starts = append(starts, k)
			before = 0
		}
		before += s.stash
		after -= s.stash
	}
	return starts
}

// wide is worth for layers found by stretches.
const wide = 4
