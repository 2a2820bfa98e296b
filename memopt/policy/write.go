package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"memopt/planner"
)

// said is settings as a policy, and the text that says them to the trainer.
type said struct {
	policy *Policy
	text   string
}

// wanted is a step and a plan's peak, for a format to come near to.
type wanted struct {
	nodes      []*Node
	layers     int
	layerNames []string
	inLayers   []*layer
	peak       int64 // the plan's
	price      func([]planner.Region) (planner.Point, error)
}

// Writes lists the formats that plans are written in.
func Writes() (names []string) {
	for _, f := range formats {
		if f.says != nil {
			names = append(names, f.name)
		}
	}
	return names
}

// Written is a policy in a trainer's settings, with what a step takes under it.
type Written struct {
	Text string
	planner.Point
}

// Write finds the cheapest settings of a format under which a step stays within a plan's peak, or else those of the lowest
// peak. price simulates
// regions.
func Write(to string, nodes []*Node, peak int64, price func([]planner.Region) (planner.Point, error)) (best Written, err error) {
	w := &wanted{nodes: nodes, inLayers: layers(nodes), peak: peak, price: price}
	for _, l := range w.inLayers {
		if !slices.Contains(w.layerNames, l.module) {
			w.layerNames = append(w.layerNames, l.module)
		}
	}
	if w.layers = len(w.layerNames); w.layers == 0 {
		return best, fmt.Errorf("no node of the plan tells a numbered module such as layers.0, and %s has checkpoints around those only", to)
	}
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == to && f.says != nil })
	if i < 0 {
		return best, fmt.Errorf("policies are not written for %q; there are %s", to, strings.Join(Writes(), ", "))
	}
	all, err := formats[i].says(w)
	if err != nil {
		return best, err
	}
	for _, s := range all {
		p, ok, err := w.under(s.policy)
		if err != nil {
			return best, err
		}
		if !ok {
			continue // the step has no such part
		}
		if best.Text == "" || before(p, best.Point, peak) {
			best = Written{s.text, p}
		}
	}
	return best, nil
}

// before reports whether a point is better than another, within a peak if that can be.
func before(p, than planner.Point, peak int64) bool {
	if p.Peak <= peak && than.Peak <= peak {
		return cmp.Or(cmp.Compare(p.Overhead, than.Overhead), cmp.Compare(p.Peak, than.Peak)) < 0
	}
	return p.Peak < than.Peak
}

// under is the step under a policy, if it has the parts of it.
func (w *wanted) under(p *Policy) (at planner.Point, ok bool, err error) {
	regions, err := p.Regions(w.nodes)
	if err != nil {
		return at, false, nil
	}
	at, err = w.price(regions)
	return at, err == nil, err
}

// fill chooses which of some results are kept, within the plan's peak: those first that spare the most for their bytes alone.
func (w *wanted) fill(of int, policy func(on []bool) *Policy) ([]bool, error) {
	on := make([]bool, of)
	none, ok, err := w.under(policy(on))
	if err != nil || !ok || none.Peak > w.peak {
		return on, err
	}
	type option struct {
		i     int
		worth float64
	}
	var all []option
	for i := range of {
		on[i] = true
		p, ok, err := w.under(policy(on))
		if on[i] = false; err != nil {
			return on, err
		}
		if spared := none.Overhead - p.Overhead; ok && p.Peak <= w.peak && spared > 0 {
			all = append(all, option{i, spared / float64(max(p.Peak-none.Peak, 1))})
		}
	}
	slices.SortStableFunc(all, func(a, b option) int { return cmp.Compare(b.worth, a.worth) })
	for _, o := range all {
		on[o.i] = true
		p, _, err := w.under(policy(on))
		if err != nil {
			return on, err
		}
		on[o.i] = p.Peak <= w.peak
	}
	return on, nil
}

// chosen are those of a list that are on.
func chosen[T any](all []T, on []bool) (out []T) {
	for i, x := range all {
		if on[i] {
			out = append(out, x)
		}
	}
	return out
}

// selectors are the modules and operators of layers, with a star for the layer's number.
func (w *wanted) selectors() (all []selector) {
	for _, l := range w.inLayers {
		for _, n := range l.nodes {
			prefix, number, _ := numbered(n.Module)
			if x := (selector{prefix + ".*" + strings.TrimPrefix(n.Module, prefix+"."+number), n.Op}); !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

// modules are the modules within layers, with a star for the layer's number.
func (w *wanted) modules() (all []string) {
	for _, x := range w.selectors() {
		_, within, _ := strings.Cut(x.module, ".*.")
		prefix := strings.TrimSuffix(x.module, within)
		for m := within; m != ""; {
			if name := prefix + m; !slices.Contains(all, name) {
				all = append(all, name)
			}
			i := max(strings.LastIndexByte(m, '.'), 0)
			m = m[:i]
		}
	}
	return all
}
