package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt/planner"
)

// part is a checkpoint inside of a layer.
type part struct {
	name  string
	drops bool // drops its result, too
	// of takes a node of a layer, by the module's name within the layer.
	of func(l *layer, n *Node, within string) bool
}

// layer is one of the model's repeated blocks.
type layer struct {
	module string
	nodes  []*Node
}

// layers are the modules that are numbered siblings, outermost, in the order in which they run.
func layers(nodes []*Node) (all []*layer) {
	siblings := map[string]map[string]bool{} // by what stands before the number
	for _, n := range nodes {
		if prefix, number, ok := numbered(n.Module); ok {
			if siblings[prefix] == nil {
				siblings[prefix] = map[string]bool{}
			}
			siblings[prefix][number] = true
		}
	}
	var last *layer
	for _, n := range nodes {
		prefix, number, ok := numbered(n.Module)
		if !ok || len(siblings[prefix]) < 2 {
			last = nil
			continue
		}
		name := prefix + "." + number
		if last == nil || last.module != name {
			last = &layer{module: name}
			all = append(all, last)
		}
		last.nodes = append(last.nodes, n)
	}
	return all
}

// numbered parts a module's name at its first number.
func numbered(module string) (prefix, number string, ok bool) {
	parts := strings.Split(module, ".")
	for i, p := range parts {
		if _, err := strconv.Atoi(p); err == nil && i > 0 {
			return strings.Join(parts[:i], "."), p, true
		}
	}
	return "", "", false
}

// Regions are the policy's checkpoints in a step, by its forward nodes that are launched.
func (p *Policy) Regions(nodes []*Node) ([]planner.Region, error) {
	if len(p.Again) > 0 {
		return p.single(nodes)
	}
	if p.All {
		return []planner.Region{p.region(nodes)}, nil
	}
	if p.Layers == nil && len(p.Parts) == 0 {
		return nil, nil
	}
	all := layers(nodes)
	if len(all) == 0 {
		return nil, fmt.Errorf("no node of the step tells a numbered module such as layers.0, so there are no layers to checkpoint")
	}
	var regions []planner.Region
	if p.Layers != nil {
		names := []string{} // a layer that is parted by others keeps its number
		group := max(p.Group, 1)
		var open []*Node
		for _, l := range all {
			if !slices.Contains(names, l.module) {
				names = append(names, l.module)
			}
		}
		for k, l := range all {
			i := slices.Index(names, l.module)
			if !p.Layers(i, l.module) {
				continue
			}
			open = append(open, l.nodes...)
			if k+1 == len(all) || (i+1)%group == 0 || !p.Layers(i+1, all[k+1].module) {
				regions = append(regions, p.region(open))
				open = nil
			}
		}
		return regions, nil
	}
	for _, part := range p.Parts {
		found := 0
		for _, l := range all {
			var run []*Node
			for i, n := range l.nodes {
				is := part.of(l, n, strings.TrimPrefix(strings.TrimPrefix(n.Module, l.module), "."))
				if is {
					run = append(run, n)
				}
				if len(run) > 0 && (!is || i+1 == len(l.nodes)) {
					r := p.region(run)
					r.Drops = part.drops
					regions, run, found = append(regions, r), nil, found+1
				}
			}
		}
		if found == 0 {
			return nil, fmt.Errorf("no module of the step is %s: its layers have %s", part.name, strings.Join(within(all[0]), ", "))
		}
	}
	return regions, nil
}

// within are the modules of a layer, by their first name.
func within(l *layer) (names []string) {
	for _, n := range l.nodes {
		first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(n.Module, l.module), "."), ".")
		if first != "" && !slices.Contains(names, first) {
			names = append(names, first)
		}
	}
	return names
}

func (p *Policy) region(nodes []*Node) planner.Region {
	r := planner.Region{Whole: p.Whole || p.Reentrant, Holds: p.Reentrant, Away: p.Away}
	keep := keepNone()
	if p.Keep != nil {
		keep = p.Keep()
	}
	for _, n := range nodes {
		if p.Apart != nil && p.Apart(n) {
			continue
		}
		r.Nodes, r.Keep = append(r.Nodes, n.ID), append(r.Keep, keep(n))
	}
	return r
}

// single are nodes that run again one by one.
func (p *Policy) single(nodes []*Node) (regions []planner.Region, err error) {
	by := map[string]*Node{}
	for _, n := range nodes {
		by[n.Name] = n
	}
	for _, name := range p.Again {
		n := by[name]
		if n == nil {
			return nil, fmt.Errorf("the step has no forward node %q: the policy was exported from a plan of another step", name)
		}
		regions = append(regions, planner.Region{Nodes: []int32{n.ID}, Drops: true})
	}
	return regions, nil
}
