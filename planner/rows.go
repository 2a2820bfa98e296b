package planner

import (
	"cmp"
	"slices"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
	"memopt/planner/cluster"
)

// Table is what a graph offers to run again as one, and what each offer does to the plan.
type Table struct {
	Clusters   []Row
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
	if p.Clusters, err = p.s.rows(p.c); err != nil {
		return err
	}
	p.s, p.c = nil, nil
	return nil
}

// Row is a line of the plan table: one cluster, or several that must be on together.
type Row struct {
	ID       string // of the first of them
	Strategy int
	// Spelled is the row as a setting: ID:strategy:-1, several joined by commas.
	Spelled string
	// Canonical names the structures behind the row, whatever order they run in.
	Canonical []string
	Freq      int
	Saving    graph.Dim
	Bytes     int64
	ORTBytes  int64 // what ONNX Runtime shows: one output of each node
	Keeps     int64 // bytes that have to be kept instead, in no saving
	Requested int   // what a setting asked for; 0 if none did
	Applied   int   // entries that run again, or are kept in less
	At        []int // which those are
	Nodes     []string
	How       string // what is kept instead, and why that will do; "" for what runs again
	// Batch reports whether the saving depends on what a step is fed; Beyond whether ONNX Runtime could not compute it
	// again.
	Batch, Beyond bool
	// PeakEffect is by how much the row lowers the plan's peak: for a row that is on, what the peak would be higher
	// without it; for one that is off, what it would be lower with it. PeakAlone is what the row lowers the peak of the
	// plain step by. Cost is the extra compute of the row, as a share of the plain step's, and Flops the extra
	// operations.
	PeakEffect, PeakAlone int64
	Cost                  float64
	Flops                 int64
}

// Key is the row as a setting: ID:strategy:-1.
func (r Row) Key() string { return r.Spelled }

// some is which entries are on, if not all are.
func (r Row) some() []int {
	if r.Applied == r.Freq {
		return nil
	}
	return r.At
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
func (s *search) rows(chosen *candidate) ([]Row, error) {
	o, err := s.offered()
	if err != nil {
		return nil, err
	}
	p := s.plan
	p.Spellings, p.Boundaries, p.Kept, p.Selection = o.a.Spellings(), nil, o.a.Kept, Selection{}
	for _, i := range o.a.Boundaries {
		p.Boundaries = append(p.Boundaries, o.a.Outline.Nodes[i].Name)
	}
	applied := o.applied(chosen.again)
	for _, c := range p.Asked {
		applied[c.Plan] = c.Option // though there may be nothing to run: its nodes are folded away
	}
	whole, err := s.whole()
	if err != nil {
		return nil, err
	}
	plain := whole.formOf(s.m, nil)
	t := &tabulation{search: s, o: o, applied: applied, counts: o.counts(p.Request), kept: map[int32]bool{}, chosen: chosen, whole: whole, plain: plain.peak}
	var rows []Row
	for i := range o.keys {
		rows = append(rows, t.row(&o.keys[i]))
	}
	here := s.m.formOf(s.m, chosen.again)
	more, err := s.extractRows(chosen, plain, here)
	if err != nil {
		return nil, err
	}
	rows = append(rows, more...)
	p.Selection.PeakDrop, p.Selection.Flops = plain.peak-chosen.t.peak, here.flops-plain.flops
	p.Selection.Cost = share(here.cost-plain.cost, plain.cost)
	if p.Request.Level > 0 {
		p.Selection.OtherBoundary = s.otherBoundary()
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Spelled, b.Spelled))
	})
	return rows, nil
}

// tabulation is what rows of clusters are told from.
type tabulation struct {
	*search
	o       *offers
	applied []int                  // by plan: the option that is on, or −1
	counts  map[cluster.Choice]int // what settings ask for
	kept    map[int32]bool         // storage that is kept for what is on, so far
	chosen  *candidate
	whole   *model // the step in which no value is kept in less
	plain   int64  // its peak
}

// row is the row of a key. What is on of it counts in the plan's selection.
func (t *tabulation) row(k *cluster.Key) Row {
	a, m, selection := t.o.a, t.m, &t.plan.Selection
	row := Row{ID: k.Parts[0].ID, Strategy: k.Parts[0].Type, Spelled: k.String(), Canonical: k.Canonical, Freq: len(k.Members),
		Saving: k.Saving, Batch: k.Batch, Beyond: k.Beyond}
	row.Bytes, row.ORTBytes = m.size(k.Saving), m.size(k.ORTSaving)
	if t.plan.Request.Compat != "" {
		row.Saving, row.Bytes = k.ORTSaving, row.ORTBytes
	}
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
		row.Applied++
		row.At = append(row.At, at)
		on = append(on, options...)
		saving, ort := a.Saving(member)
		selection.Bytes += m.size(saving)
		selection.ORTBytes += m.size(ort)
	}
	if row.Applied > 0 {
		selection.Rows++
	}
	t.weigh(&row, on, off)
	return row
}

// keptFor lists the storage in the arena that options need to be kept instead.
func (s *search) keptFor(options []*cluster.Option) (owners []int32) {
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
func (s *search) offered() (*offers, error) {
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
func (s *search) turnOn(on []bool) error {
	r := s.plan.Request
	if r.Level == 0 && len(r.Clusters) == 0 {
		return nil
	}
	o, err := s.offered()
	if err != nil {
		return err
	}
	choices, warnings := o.wishes(r)
	s.plan.Warnings = append(s.plan.Warnings, warnings...)
	s.plan.Asked = choices
	o.turnChoices(on, choices)
	return nil
}

// otherBoundary is the peak of the request's level with layers switched the other way.
func (s *search) otherBoundary() int64 {
	r := s.plan.Request
	r.Boundary = !r.Boundary
	o, err := s.m.offers(r)
	if err != nil {
		return 0
	}
	on := make([]bool, len(s.m.g.Nodes))
	choices, _ := o.wishes(r)
	o.turnChoices(on, choices)
	return s.m.simulate(s.m.order(on)).peak
}

// whole is the step in which no value is kept in less.
func (s *search) whole() (*model, error) {
	all := s.plan.Request.Extracts
	on := slices.IndexFunc(all, func(e Extract) bool { return slices.Contains(e.On, true) })
	if on < 0 {
		return s.m, nil
	}
	return s.modelOf(&all[on], true, false, nil)
}

// weigh simulates the plan with a row the other way round, and the whole step with the row alone.
func (t *tabulation) weigh(row *Row, on, off []*cluster.Option) {
	chosen, m := t.chosen, t.m
	other := slices.Clone(chosen.again)
	only := make([]bool, len(other))
	t.o.turn(only, append(slices.Clip(on), off...)...)
	for id, is := range only {
		if is {
			other[id] = row.Applied == 0
		}
	}
	if row.Applied > 0 { // but for what other rows that are on need
		for i, k := range t.applied {
			if k >= 0 && !slices.Contains(on, &t.o.a.Plans[i].Options[k]) {
				t.o.turn(other, &t.o.a.Plans[i].Options[k])
			}
		}
		for id := range other {
			other[id] = other[id] && chosen.again[id]
		}
	}
	turned := m.simulate(m.order(other))
	cost, flops, _ := m.again(turned.steps)
	_, now, _ := m.again(chosen.t.steps)
	row.PeakEffect, row.Cost, row.Flops = turned.peak-chosen.t.peak, chosen.cost-cost, now-flops
	if row.Applied == 0 {
		row.PeakEffect, row.Cost, row.Flops = -row.PeakEffect, -row.Cost, -row.Flops
	}
	row.Cost = share(row.Cost, t.whole.total)
	row.PeakAlone = t.plain - t.whole.formOf(m, only).peak
}
