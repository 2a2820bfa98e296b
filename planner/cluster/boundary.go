package cluster

import (
	"hash/fnv"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// NoBoundary is what ONNX Runtime logs when it finds no layers.
const NoBoundary = "No transformer layer boundary nodes found, this might cause memory optimization not working as expected. Please check the model and the configuration."

// boundaries finds what is kept from layer to layer.
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

// crosses reports whether what is kept of a node crosses from layer to layer.
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

// normsBeforeAttention is ONNX Runtime's rule: a normalization of what an Add
// reads too, the residual, with a softmax on the way between the two.
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

// softmaxBetween looks for attention behind a node and before a place.
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

// segment is a stretch of the spine between places where one value alone
// crosses.
type segment struct {
	value string // that crosses in front of it; "" before the first
	cross float64
	kept  bool   // the backward pass reads it anyway
	key   uint64 // of its operators
	nodes int
	stash float64 // bytes of it that the backward pass reads
}

// cuts finds layers by what is narrow, whatever they are made of. The spine is
// the nodes that a step's inputs reach by way of weights and that reach the
// results: gradients flow along it, masks and positions lie beside it. Where
// one value of the spine crosses, all of the rest hangs on that value. Such
// values part the spine into segments; where the same segments come again and
// again, each round is a layer, and what crosses in front of it is kept.
func (p *prober) cuts() {
	segments := p.segments()
	starts := layers(segments)
	if len(starts) == 0 {
		starts = stretches(segments)
	}
	for _, k := range starts {
		value := segments[k].value
		if value == "" {
			continue
		}
		p.kept[p.storage(value)] = true
		p.a.Kept = append(p.a.Kept, value)
		p.a.Boundaries = append(p.a.Boundaries, p.firstReader(value))
	}
}

// firstReader is the forward node that reads a value first.
func (p *prober) firstReader(value string) int {
	at := p.makers[value]
	best := -1
	for _, e := range p.a.wiring.out[at.node] {
		if e.out == at.out && (best < 0 || p.at[e.to] < p.at[best]) {
			best = e.to
		}
	}
	return best
}

// spine marks the nodes that the gradient of a step flows through.
func (p *prober) spine() []bool {
	o := p.a.Outline
	reaches := make([]bool, len(o.Nodes))
	for _, i := range slices.Backward(p.a.Order[:p.a.Yield+1]) {
		reaches[i] = p.at[i] == p.a.Yield && p.a.Outline.Nodes[i].Op == border
		for _, name := range o.Nodes[i].Outputs {
			reaches[i] = reaches[i] || p.returned[name]
		}
		for _, e := range p.a.wiring.out[i] {
			reaches[i] = reaches[i] || p.forward(e.to) && reaches[e.to] && !measures[o.Nodes[e.to].Op]
		}
	}
	// What weights touch, and what a step is fed: a spine needs both.
	weighed, fed := make([]bool, len(o.Nodes)), make([]bool, len(o.Nodes))
	spine := make([]bool, len(o.Nodes))
	for _, i := range p.a.Order[:p.a.Yield+1] {
		n := &o.Nodes[i]
		if measures[n.Op] {
			continue
		}
		for _, name := range n.Inputs {
			at, made := p.makers[name]
			switch {
			case made:
				weighed[i] = weighed[i] || weighed[at.node]
				fed[i] = fed[i] || fed[at.node]
			case p.trained[name] || len(p.trained) == 0 && p.weight[name]:
				weighed[i] = true
			case name != "" && !p.weight[name]:
				fed[i] = true
			}
		}
		spine[i] = reaches[i] && weighed[i] && fed[i] && n.Op != border
	}
	return spine
}

// segments parts the spine where one value crosses.
func (p *prober) segments() []segment {
	o := p.a.Outline
	spine := p.spine()
	// How long each storage of the spine is read along it.
	last := map[place]int{}
	var order []int
	for _, i := range p.a.Order[:p.a.Yield+1] {
		if spine[i] {
			for _, name := range o.Nodes[i].Inputs {
				if at, made := p.makers[name]; made && spine[at.node] {
					last[p.storage(name)] = len(order)
				}
			}
			order = append(order, i)
		}
	}
	var all []segment
	now := segment{}
	crossing := map[place]bool{}
	ends := make([][]place, len(order))
	for s, k := range last {
		ends[k] = append(ends[k], s)
	}
	var ops []string
	for k, i := range order {
		n := &o.Nodes[i]
		now.nodes++
		ops = append(ops, fullName(n))
		for _, s := range ends[k] {
			delete(crossing, s)
		}
		name := ""
		for out, made := range n.Outputs {
			if slices.Contains(p.credit[i], out) {
				now.stash += p.nominal(made)
			}
			if s := p.storage(made); made != "" && last[s] > k {
				crossing[s] = true
				name = made
			}
		}
		if len(crossing) == 1 && name != "" {
			now.key = structure(ops)
			all = append(all, now)
			now, ops = segment{value: name, cross: p.nominal(name), kept: p.isStashed(p.makers[name])}, nil
		}
	}
	now.key = structure(ops)
	return append(all, now)
}

// structure tells segments of other operators from each other, in whatever
// order these run.
func structure(ops []string) uint64 {
	slices.Sort(ops)
	h := fnv.New64a()
	h.Write([]byte(strings.Join(ops, " "))) // a hash does not fail
	return h.Sum64()
}

// usual is the size that dims are taken to have where only ratios matter.
const usual = 64

// nominal is about the size of a value.
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

// layers finds the longest stretch in which a few segments come again and
// again, and returns where each round begins. A round that is cut short counts
// if it begins like the others. Rounds must keep more than what crosses
// between them, or else several are one.
func layers(all []segment) []int {
	best, from, unit := 0, 0, 0
	for size := 1; size <= len(all)/2; size++ {
		for k := 0; k+2*size <= len(all); {
			n := k + size
			for n < len(all) && all[n].key == all[n-size].key {
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
		return nil
	}
	rounds := 0
	for k := from; k < len(all) && all[k].key == all[from].key; k += unit {
		rounds++
	}
	if last := all[from+(rounds-1)*unit:]; rounds > 2 && nodes(last[:alike(all[from:from+unit], last)])*2 < nodes(all[from:from+unit]) {
		rounds-- // it begins like the others, and is none
	}
	// Of the places in a round at which it may begin, one is best where what
	// crosses is kept anyway.
	shift := 0
	for k := range unit {
		if from+k+(rounds-1)*unit < len(all) && all[from+k].kept && all[from+k+unit].kept {
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
	return starts
}

// alike is how many segments of two stretches agree, from their beginnings.
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

// worth is how much more a stretch has to keep than what crosses behind it.
const worth = 1.5

// stretches cuts where nothing comes again: as soon as enough is kept since the
// last cut, if enough is left behind.
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

// wide is worth where layers are only guessed.
const wide = 4
