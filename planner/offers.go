package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/planner/cluster"
)

// offers is what can be computed again as one, in the nodes of the program as its file spells it, and what that means
// for the nodes of the graph.
type offers struct {
	a    *cluster.Analysis
	keys []cluster.Key
	// runs and makes are the graph's nodes that an option repeats, and those of them that make what it frees. Nodes
	// that were folded away cost nothing.
	runs, makes map[*cluster.Option][]int32
}

// analyse finds what can be computed again in the request's outline, or in the graph itself.
func (m *model) analyse(r Request) (*offers, error) {
	stop.Poll(m.ctx)
	rules := cluster.Rules{ProbeLevel: 1, Boundary: r.Boundary, Compat: r.Compat, Library: m.g.Lib, Value: m.valueNamed, Context: m.ctx}
	var a *cluster.Analysis
	var err error
	if r.Outline != nil {
		a, err = cluster.Analyse(r.Outline, rules)
	} else {
		o := cluster.Of(m.g)
		stop.Poll(m.ctx)
		a, err = cluster.AnalyseGraph(m.g, o, rules)
	}
	if err != nil {
		return nil, err
	}
	o := &offers{a: a, runs: map[*cluster.Option][]int32{}, makes: map[*cluster.Option][]int32{}}
	for i := range a.Plans {
		stop.Poll(m.ctx)
		for k := range a.Plans[i].Options {
			option := &a.Plans[i].Options[k]
			o.runs[option] = m.runs(option, o)
			o.makes[option] = m.makes(option)
		}
	}
	return o, nil
}

// offers is an analysis with the rows of the cluster table.
func (m *model) offers(r Request) (*offers, error) {
	o, err := m.analyse(r)
	if err != nil {
		return nil, err
	}
	if err := graph.Try(func() { o.keys = o.a.Keys() }); err != nil {
		return nil, err
	}
	if r.Compat == "" {
		all := int64(0)
		for i := range o.keys {
			all += m.size(o.keys[i].Saving)
		}
		o.keys = slices.DeleteFunc(o.keys, func(k cluster.Key) bool { return m.negligible(&k, all) && !r.names(k) })
	}
	// The order of ONNX Runtime's table, by which its levels choose.
	slices.SortStableFunc(o.keys, func(x, y cluster.Key) int { return cmp.Compare(m.size(y.ORTSaving), m.size(x.ORTSaving)) })
	return o, nil
}

// valueNamed is what inference knows of a value.
func (m *model) valueNamed(name string) (graph.OutlineValue, bool) {
	v := m.g.ByName(name)
	if v == nil {
		return graph.OutlineValue{}, false
	}
	return graph.OutlineValue{Type: v.Type, Shape: v.Shape, Known: true}, true
}

// runs lists the graph's nodes behind an option: those that make the outputs of its nodes, with what has no name in the
// outline in between.
func (m *model) runs(option *cluster.Option, o *offers) (ids []int32) {
	var work []*graph.Node
	met := map[*graph.Node]bool{}
	meet := func(v *graph.Value) {
		if v != nil && v.Def != nil && v.Def.Phase == graph.Forward && !met[v.Def] {
			met[v.Def] = true
			work = append(work, v.Def)
		}
	}
	for _, i := range option.Nodes {
		for _, name := range o.a.Outline.Nodes[i].Outputs {
			if name != "" {
				meet(m.g.ByName(name))
			}
		}
	}
	for len(work) > 0 {
		n := work[0]
		work = work[1:]
		if m.mayRunAgain(n) {
			ids = append(ids, n.ID)
		}
		for _, v := range n.Inputs {
			if v != nil && !o.a.Makes(v.Name) {
				meet(v)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// makes lists the nodes whose bytes an option frees.
func (m *model) makes(option *cluster.Option) (ids []int32) {
	for _, s := range option.Outputs {
		v := m.g.ByName(s.Name)
		if v == nil || m.fixed[m.owner[v.ID]] {
			continue
		}
		if def := m.g.Values[m.owner[v.ID]].Def; def != nil && m.mayRunAgain(def) && !slices.Contains(ids, def.ID) {
			ids = append(ids, def.ID)
		}
	}
	return ids
}

// negligible reports whether a key frees no more at each place than allocators round up to, and next to nothing
// compared with what all keys free.
func (m *model) negligible(k *cluster.Key, all int64) bool {
	const granule, part = 256, 1000
	saved, err := m.binding.Eval(k.Saving)
	return err == nil && saved <= granule*int64(len(k.Members)) && saved <= all/part
}

// names reports whether a setting asks for a key.
func (r Request) names(k cluster.Key) bool {
	return slices.ContainsFunc(r.Clusters, func(w cluster.Request) bool { return w.ID == k.Parts[0].ID && w.Type == k.Parts[0].Type })
}

// turnChoices marks the nodes of chosen options.
func (o *offers) turnChoices(on []bool, choices []cluster.Choice) {
	for _, c := range choices {
		o.turn(on, o.a.Option(c))
	}
}

// turn marks the nodes of options.
func (o *offers) turn(on []bool, options ...*cluster.Option) {
	for _, option := range options {
		for _, ids := range [][]int32{o.runs[option], o.makes[option]} {
			for _, id := range ids {
				on[id] = true
			}
		}
	}
}

// applied reports, by plan, which option a set of repeated nodes comes to, or −1: the outputs are made again, and by it
// more than by the others.
func (o *offers) applied(again []bool) []int {
	best := make([]int, len(o.a.Plans))
	for i := range o.a.Plans {
		best[i] = -1
		most, lack := 0, 0
		for k := range o.a.Plans[i].Options {
			option := &o.a.Plans[i].Options[k]
			if len(o.makes[option]) == 0 || slices.ContainsFunc(o.makes[option], func(id int32) bool { return !again[id] }) {
				continue
			}
			ran := 0
			for _, id := range o.runs[option] {
				if again[id] {
					ran++
				}
			}
			if missing := len(o.runs[option]) - ran; best[i] < 0 || missing < lack || missing == lack && ran > most {
				best[i], most, lack = k, ran, missing
			}
		}
	}
	return best
}

// requested picks the options that a request asks for, at most one a place, and warns of entries that mean something else
// than they say. Under Compat all is as ONNX Runtime does it: a level replaces what the user asks for.
func (o *offers) requested(r Request) (chosen []cluster.Choice, warnings []string) {
	asked := cluster.Level(o.keys, r.Level)
	if r.Compat != "" && r.Level > 0 {
		for _, w := range r.Clusters {
			warnings = append(warnings, fmt.Sprintf("%s%q is ignored: in ONNX Runtime a level asks for clusters itself", w.Where, cluster.Text(w)))
		}
		return o.a.Choose(asked).Choices, warnings
	}
	by := make([]string, len(o.a.Plans)) // who asks for each place
	for _, w := range r.Clusters {
		asked = append(asked, w)
		if r.Compat == "" {
			warnings = append(warnings, o.remarks(w, by, r.extracted(w.ID))...)
		}
	}
	all := o.a.Choose(asked)
	if r.Compat != "" {
		for i, w := range r.Clusters {
			warnings = append(warnings, o.asORT(w, r.Clusters[i+1:], all.Tallies[i].Matched)...)
		}
	}
	return all.Choices, warnings
}

// asORT are remarks on what ONNX Runtime makes of a request, in silence: later are the requests behind it.
func (o *offers) asORT(w cluster.Request, later []cluster.Request, matched int) []string {
	say := func(format string, args ...any) []string { return []string{w.Where + fmt.Sprintf(format, args...)} }
	text := cluster.Text(w)
	wins := slices.IndexFunc(later, func(x cluster.Request) bool { return x.ID == w.ID })
	switch {
	case wins >= 0:
		return say("%q is ignored: in ONNX Runtime %q, which comes later, takes its place", text, cluster.Text(later[wins]))
	case w.Type == 0 && slices.Contains(o.a.Spellings(), w.ID):
		return nil
	case matched == 0:
		return []string{o.unmatched(w)}
	case len(w.Places) > 0:
		if last := w.Places[len(w.Places)-1].Last; last >= matched {
			return say("%q names layer %d, but the model has the cluster %d times, from 0 to %d", text, last, matched, matched-1)
		}
	case w.Count == 0:
		return say("%q asks for none, which in ONNX Runtime is all but the last of %d", text, matched)
	case w.Count > 0 && w.Count != matched:
		return say("%q asks for %d, which in ONNX Runtime is all %d", text, w.Count, matched)
	}
	return nil
}

// remarks are on one request: what its spelling means, places that another request asks for too, and what there is none
// of. Some values of the ID can be kept in less, which strategy 2 means too.
func (o *offers) remarks(w cluster.Request, by []string, extracts int) (out []string) {
	say := func(format string, args ...any) { out = append(out, w.Where+fmt.Sprintf(format, args...)) }
	text := cluster.Text(w)
	kinds := []int{w.Type}
	if w.Type == 0 {
		kinds = []int{cluster.Full, cluster.Compromise}
	}
	matched := 0
	if w.Type == cluster.Compromise {
		matched = extracts
	}
	var others []string
	for _, kind := range kinds {
		choices, spellings := o.a.Match(w.ID, kind)
		matched += len(choices)
		if w.Type == 0 {
			continue
		}
		if len(spellings) > 0 {
			say("cluster %q means %s too: the same nodes in another order, or with what they need", w.ID, quotedList(spellings))
		}
		for i, c := range choices {
			if !w.Wants(i) {
				continue
			}
			if other := by[c.Plan]; other != "" && other != text && !slices.Contains(others, other) {
				others = append(others, other)
				say("%q and %q ask for the same places, as node %q; what saves more is done", text, other, o.a.Outline.Nodes[o.a.Plans[c.Plan].Entry].Name)
			}
			by[c.Plan] = text
		}
	}
	switch last := len(w.Places) - 1; {
	case matched == 0 && extracts > 0:
		say("cluster %q can only be had as a compromise (strategy 2) here; it is left off", w.ID)
	case matched == 0:
		out = append(out, o.unmatched(w))
	case last >= 0 && w.Places[last].Last >= matched:
		say("%q names layer %d, but the model has the cluster %d times, from 0 to %d", text, w.Places[last].Last, matched, matched-1)
	case w.Count > matched:
		say("%q asks for %d, but the model has the cluster %d times", text, w.Count, matched)
	}
	return out
}

// counts is what settings ask for of each place, by any spelling.
func (o *offers) counts(r Request) map[cluster.Choice]int {
	counts := map[cluster.Choice]int{}
	for _, w := range r.Clusters {
		choices, _ := o.a.Match(w.ID, w.Type)
		for _, c := range choices {
			if r.Compat == "" || o.a.ID(o.a.Option(c)) == w.ID {
				counts[c] = w.Count
			}
		}
	}
	return counts
}

// unmatched says why a request comes to nothing.
func (o *offers) unmatched(w cluster.Request) string {
	if slices.Contains(o.a.Spellings(), w.ID) {
		if w.Type == cluster.Compromise {
			return fmt.Sprintf("%scluster %q has no compromise (strategy 2); it is left off, and strategy 1 would compute it again", w.Where, w.ID)
		}
		return fmt.Sprintf("%scluster %q can only be had as a compromise (strategy 2); it is left off", w.Where, w.ID)
	}
	for _, d := range o.a.Dropped {
		if d.ID == w.ID {
			return fmt.Sprintf("%scluster %q is left off: %s", w.Where, w.ID, d.Why)
		}
	}
	return fmt.Sprintf("%scluster %q is not in this graph", w.Where, w.ID)
}

// quotedList is quoted names with commas.
func quotedList(names []string) string {
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, strconv.Quote(n))
	}
	return strings.Join(quoted, ", ")
}
