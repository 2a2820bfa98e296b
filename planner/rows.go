package planner

import (
	"cmp"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/planner/cluster"
)

// Table is what a graph offers to run again as one, and what each offer does to the plan.
type Table struct {
	Clusters   []Cluster
	Selection  Selection
	Spellings  []string // how clusters may be named
	Boundaries []string // the nodes that read what layers keep for each other
	Kept       []string // and what that is
	// Analysis is what can be computed again by the names of the request's outline.
	Analysis *cluster.Analysis
}

// Tabulate fills in the table, and the warnings that belong to it. Make leaves that out: no decision needs it, and on a
// long program it takes longer than they do. Once is enough; to ask again costs nothing.
func (p *Plan) Tabulate() (err error) {
	if p.s == nil {
		return nil
	}
	if p.Clusters, err = p.s.rows(); err != nil {
		return err
	}
	p.s = nil
	return nil
}

// Cluster is a line of the plan table: one cluster, or several that must be on together.
type Cluster struct {
	ID        string   `json:"id"` // of the first of them
	Strategy  int      `json:"strategy"`
	Key       string   `json:"key"` // the row as a setting: ID:strategy:-1, several joined by commas
	Freq      int      `json:"freq"`
	Saving    string   `json:"saving"` // a formula
	Bytes     int64    `json:"bytes"`
	ORTBytes  int64    `json:"ort_bytes"` // what ONNX Runtime shows: one output of each node
	On        bool     `json:"on"`
	Requested int      `json:"requested"` // what a setting asked for; 0 if none did
	Matched   int      `json:"matched"`
	Applied   int      `json:"applied"`              // entries that run again, or are kept in less
	AppliedAt []int    `json:"applied_at,omitempty"` // which those are, if not all
	Nodes     []string `json:"nodes"`
	How       string   `json:"how,omitempty"` // what is kept instead, and why that will do; "" for what runs again
	Canonical []string `json:"canonical"`     // its structures, whatever order their nodes run in
	Keeps     int64    `json:"keeps"`         // bytes that have to be kept instead, in no saving
	// BatchIndependent says that the saving is made of weights alone, Beyond that ONNX Runtime has no such plan.
	BatchIndependent bool `json:"batch_independent"`
	Beyond           bool `json:"beyond"`
	// PeakEffect is by how much the row lowers the plan's peak: for a row that is on, what the peak would be higher
	// without it; for one that is off, what it would be lower with it. PeakAlone is what the row lowers the peak of the
	// plain step by. Cost is the extra compute of the row, as a share of the plain step's.
	PeakEffect int64   `json:"peak_effect"`
	PeakAlone  int64   `json:"peak_alone"`
	Cost       float64 `json:"cost"`
	ExtraFlops int64   `json:"extra_flops"`
}

// apply has an entry be on.
func (r *Cluster) apply(entry int) {
	r.Applied, r.AppliedAt, r.On = r.Applied+1, append(r.AppliedAt, entry), true
	if r.Applied == r.Freq {
		r.AppliedAt = nil
	}
}

// setEffects sets the row's effects to the differences between the plan and one with the row switched.
func (r *Cluster) setEffects(effect int64, cost float64, flops int64) {
	if !r.On {
		effect, cost, flops = -effect, 0-cost, -flops // 0-cost: files would print -0
	}
	r.PeakEffect, r.Cost, r.ExtraFlops = effect, cost, flops
}

// Selection is the rows that are on, taken together.
type Selection struct {
	Rows     int   `json:"rows"`
	Bytes    int64 `json:"bytes"` // the sum of their savings, as far as they are applied
	ORTBytes int64 `json:"ort_bytes"`
	Keeps    int64 `json:"keeps"`
	// PeakDrop is what the peak really falls by, Cost and Flops what the step does more, all compared with the step in
	// which everything is kept whole.
	PeakDrop int64   `json:"peak_drop"`
	Cost     float64 `json:"cost"`
	Flops    int64   `json:"extra_flops"`
	// OtherBoundary is the peak of the same level with layer boundaries the other way round, 0 if no level is asked
	// for.
	OtherBoundary int64 `json:"peak_other_boundary"`
}

// ClusterIDs lists how clusters of the plan's graph are spelled, by its table.
func (p *Plan) ClusterIDs() []string {
	ids := slices.Clone(p.Spellings)
	for _, r := range p.Clusters {
		if !slices.Contains(ids, r.ID) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// rows is the plan table: every cluster, largest saving first.
func (s *Search) rows() ([]Cluster, error) {
	o, err := s.offered()
	if err != nil {
		return nil, err
	}
	p := s.plan
	p.Spellings, p.Boundaries, p.Kept, p.Selection = o.a.Spellings(), nil, o.a.Kept, Selection{}
	for _, i := range o.a.Boundaries {
		p.Boundaries = append(p.Boundaries, o.a.Outline.Nodes[i].Name)
	}
	again := ranAgain(p.Steps, len(s.m.g.Nodes))
	applied := o.applied(again)
	for _, c := range p.Asked {
		applied[c.Plan] = c.Option // though there may be nothing to run: its nodes are folded away
	}
	whole, err := s.whole()
	if err != nil {
		return nil, err
	}
	plain := whole.formOf(s.m, nil)
	t := &tabulation{Search: s, o: o, applied: applied, counts: o.counts(p.Request), kept: map[int32]bool{}, again: again, whole: whole, plain: plain.peak}
	rows := []Cluster{}
	for i := range o.keys {
		rows = append(rows, t.row(&o.keys[i]))
	}
	here := s.m.formOf(s.m, again)
	more, err := s.extractRows(again, plain, here)
	if err != nil {
		return nil, err
	}
	rows = append(rows, more...)
	p.Selection.PeakDrop, p.Selection.Flops = plain.peak-p.t.peak, here.flops-plain.flops
	p.Selection.Cost = share(here.cost-plain.cost, plain.cost)
	if p.Request.Level > 0 {
		p.Selection.OtherBoundary = s.otherBoundary()
	}
	slices.SortStableFunc(rows, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Key, b.Key))
	})
	return rows, nil
}

// tabulation is what rows of clusters are worked out from.
type tabulation struct {
	*Search
	o       *offers
	applied []int                  // by plan: the option that is on, or −1
	counts  map[cluster.Choice]int // what settings ask for
	kept    map[int32]bool         // storage that is kept for what is on, so far
	again   []bool                 // by node: what the plan runs again
	whole   *model                 // the step in which no value is kept in less
	plain   int64                  // its peak
}

// row is the row of a key. What is on of it counts in the plan's selection.
func (t *tabulation) row(k *cluster.Key) Cluster {
	a, m, selection := t.o.a, t.m, &t.plan.Selection
	saving := k.Saving
	if t.plan.Request.Compat != "" {
		saving = k.ORTSaving
	}
	row := Cluster{ID: k.Parts[0].ID, Strategy: k.Parts[0].Type, Key: k.String(), Canonical: k.Canonical, Freq: len(k.Members), Matched: len(k.Members),
		Saving: cluster.Formula(saving), Bytes: m.size(saving), ORTBytes: m.size(k.ORTSaving), BatchIndependent: !k.Batch, Beyond: k.Beyond}
	var on, off []*cluster.Option // what is done of the row, and what is not
	kept := map[int32]bool{}
	for at, member := range k.Members {
		stop.Poll(m.ctx)
		options := a.Options(member)
		row.Nodes = append(row.Nodes, a.Outline.Nodes[a.Plans[member.Plan].Entry].Name)
		is := true
		for _, choice := range a.Choices(member) {
			is = is && t.applied[choice.Plan] == choice.Option
			row.Requested = cmp.Or(t.counts[choice], row.Requested)
		}
		for _, o := range t.keptFor(options) {
			if !kept[o] {
				kept[o] = true
				row.Keeps += m.bytes[o]
			}
			if is && !t.kept[o] {
				t.kept[o] = true
				selection.Keeps += m.bytes[o]
			}
		}
		if !is {
			off = append(off, options...)
			continue
		}
		row.apply(at)
		on = append(on, options...)
		saving, ort := a.Saving(member)
		selection.Bytes += m.size(saving)
		selection.ORTBytes += m.size(ort)
	}
	if row.On {
		selection.Rows++
	}
	t.weigh(&row, on, off)
	return row
}

// keptFor lists the storage in the arena that options need to be kept instead.
func (s *Search) keptFor(options []*cluster.Option) (owners []int32) {
	for _, option := range options {
		for _, name := range option.Keeps {
			if v := s.m.g.ByName(name); v != nil && !s.m.fixed[s.m.owner[v.ID]] {
				owners = append(owners, s.m.owner[v.ID])
			}
		}
	}
	return owners
}

// size evaluates bytes; 0 if the program's file does not tell them.
func (m *model) size(d graph.Dim) int64 {
	n, err := m.binding.Eval(d)
	if err != nil {
		return 0
	}
	return n
}

// offered analyses the program once.
func (s *Search) offered() (*offers, error) {
	if s.offer == nil {
		o, err := s.m.offers(s.plan.Request)
		if err != nil {
			return nil, err
		}
		s.offer, s.plan.Analysis = o, o.a
		s.plan.Warnings = append(s.plan.Warnings, o.a.Warnings...)
	}
	return s.offer, nil
}

// turnOn marks the nodes that levels and clusters of a request ask for.
func (s *Search) turnOn(on []bool) error {
	r := s.plan.Request
	if r.Level == 0 && len(r.Clusters) == 0 {
		return nil
	}
	o, err := s.offered()
	if err != nil {
		return err
	}
	choices, warnings := o.requested(r)
	s.plan.Warnings = append(s.plan.Warnings, warnings...)
	s.plan.Asked = choices
	o.turnChoices(on, choices)
	return nil
}

// otherBoundary is the peak of the request's level with layers switched the other way.
func (s *Search) otherBoundary() int64 {
	r := s.plan.Request
	r.Boundary = !r.Boundary
	o, err := s.m.offers(r)
	if err != nil {
		return 0
	}
	on := make([]bool, len(s.m.g.Nodes))
	choices, _ := o.requested(r)
	o.turnChoices(on, choices)
	return s.m.simulate(s.m.order(on)).peak
}

// whole is the step in which no value is kept in less.
func (s *Search) whole() (*model, error) {
	all := s.plan.Request.Extracts
	on := slices.IndexFunc(all, func(e Extract) bool { return slices.Contains(e.On, true) })
	if on < 0 {
		return s.m, nil
	}
	return s.modelOf(&all[on], true, false, nil)
}

// weigh simulates the plan with a row the other way round, and the whole step with the row alone.
func (t *tabulation) weigh(row *Cluster, on, off []*cluster.Option) {
	m, now := t.m, t.plan.t
	other := slices.Clone(t.again)
	only := make([]bool, len(other))
	t.o.turn(only, append(slices.Clip(on), off...)...)
	for id, is := range only {
		if is {
			other[id] = !row.On
		}
	}
	if row.On { // but for what other rows that are on need
		for i, k := range t.applied {
			if k >= 0 && !slices.Contains(on, &t.o.a.Plans[i].Options[k]) {
				t.o.turn(other, &t.o.a.Plans[i].Options[k])
			}
		}
		for id := range other {
			other[id] = other[id] && t.again[id]
		}
	}
	with := m.simulate(m.order(other))
	cost, flops, _ := m.again(with.steps)
	nowCost, nowFlops, _ := m.again(now.steps)
	row.setEffects(with.peak-now.peak, share(nowCost-cost, t.whole.total), nowFlops-flops)
	row.PeakAlone = t.plain - t.whole.formOf(m, only).peak
}
