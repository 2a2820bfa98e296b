package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"memopt/memopt/graph"
	"memopt/planner/cluster"
	"memopt/planner/pack"
)

// Request is what a plan is asked for.
type Request struct {
	Dims map[string]int64
	// Budget binds everything the step holds: parameters, states, inputs and
	// the arena. ActivationBudget binds the arena alone. 0 is no limit.
	Budget, ActivationBudget Size
	// MaxOverhead asks for the lowest peak whose extra cost stays within this
	// share of the step's cost. 0 is no limit.
	MaxOverhead float64
	// Strategy is a name from Strategies; "" is auto.
	Strategy string
	// Boundary is noted in the plan; clusters do not end at boundaries yet.
	Boundary bool
	// Level 1 and 2 turn on every cluster, as ONNX Runtime's levels do.
	Level int
	// Clusters turns single clusters on.
	Clusters []ClusterRequest
	// Again names forward nodes that must run again, whatever a strategy says.
	Again []string
}

// Size is bytes, or a share of what the plan without recomputation needs.
type Size struct {
	Bytes   int64
	Percent float64
}

func (s Size) isZero() bool { return s.Bytes == 0 && s.Percent == 0 }

func (s Size) of(base int64) int64 {
	if s.Percent > 0 {
		return int64(float64(base) * s.Percent / 100)
	}
	return s.Bytes
}

// ClusterRequest turns on the first Count entries of a cluster in execution
// order, −1 being all of them, or the entries in Places if that is not empty.
type ClusterRequest struct {
	ID       string
	Strategy int
	Count    int
	Places   []Places
	Where    string // of a setting, for warnings
}

// Places is a range of a cluster's entries, both ends included.
type Places struct{ First, Last int }

// wants reports whether the request turns on entry i.
func (r ClusterRequest) wants(i int) bool {
	if len(r.Places) == 0 {
		return r.Count < 0 || i < r.Count
	}
	return slices.ContainsFunc(r.Places, func(p Places) bool { return p.First <= i && i <= p.Last })
}

// Plan is the decisions for one graph under one binding of its dims.
type Plan struct {
	Graph   *graph.Graph
	Request Request
	// Steps is the order; Offsets the place of each life in the arena.
	Steps   []Step
	Offsets []int64
	Arena   int64
	// PackBound is what no placement of these lives can go below.
	PackBound int64

	Baseline, Result Summary
	Floor            Floor
	Bound            Bound
	Memory           Memory
	Clusters         []Row
	Dominant         []Holding // the three largest values alive at the peak
	Strategy         string    // the one that was used
	Took             time.Duration
	Warnings         []string

	m *model
	t *timeline
}

// Summary is one schedule's figures.
type Summary struct {
	Peak        int64  // most bytes alive at one step
	PeakNode    string // that step's node
	PeakFormula string // what is alive there, in the graph's dims
	Arena       int64  // height after placement
	Stashed     int64  // bytes that pass from forward to backward
	Flops       int64
	ExtraFlops  int64
	Overhead    float64 // extra cost as a share of the plain step's
	Again       int     // nodes that run again
}

// Holding is a value that takes bytes at the peak.
type Holding struct {
	Value string
	Bytes int64
}

// Floor is the peak that no plan in this order can go below, and why.
type Floor struct {
	Peak int64
	Node string
}

// Memory is who owns what at the peak. Total is what a budget binds.
type Memory struct {
	Weights, Gradients, Optimizer, Activations, Staging, Total int64
}

// Row is a line of the plan table: one cluster, or the part of it that was
// chosen.
type Row struct {
	ID        string
	Strategy  int
	Freq      int
	Saving    graph.Dim
	Bytes     int64
	Requested int // what a setting asked for; 0 if none did
	Applied   int // entries that run again
	Nodes     []string
	// PeakEffect is by how much the row lowers the plan's peak: for a row that
	// is on, what the peak would be higher without it; for one that is off,
	// what it would be lower with it. Cost is the extra compute of the row, as
	// a share of the plain step's.
	PeakEffect int64
	Cost       float64
}

// Key is the row as a setting: ID:strategy:count.
func (r Row) Key() string { return fmt.Sprintf("%s:%d:-1", r.ID, r.Strategy) }

// BudgetError says that a budget cannot be met, and what could.
type BudgetError struct {
	Want, Best, Fixed int64 // arena bytes wanted and reached; bytes outside it
	Floor             Floor
	Msg               string
}

func (e *BudgetError) Error() string { return "planner: " + e.Msg }

// Make plans a training graph.
func Make(g *graph.Graph, r Request) (*Plan, error) {
	begin := time.Now()
	m, err := newModel(g, r.Dims)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	p := &Plan{Graph: g, Request: r, m: m}
	base, err := m.candidate(make([]bool, len(g.Nodes)))
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	p.Baseline, p.Floor = m.summary(base), m.floor()
	s := &search{m: m, base: base, clusters: m.clusters(), plan: p}
	chosen, err := s.run()
	if err != nil {
		return nil, err
	}
	chosen.again = ranAgain(chosen.t.steps, len(g.Nodes))
	p.adopt(chosen)
	p.Bound = m.bound(base, chosen, s.target)
	p.Clusters = s.rows(chosen)
	if err := Check(p); err != nil {
		panic(fmt.Sprintf("planner: its own plan is wrong: %v", err))
	}
	p.Took = time.Since(begin)
	return p, nil
}

// adopt makes a candidate the plan.
func (p *Plan) adopt(c *candidate) {
	p.t, p.Steps = c.t, c.t.steps
	p.Offsets, p.Arena, p.PackBound = c.placed.Offsets, c.placed.Height, c.placed.Bound
	p.Result, p.Memory, p.Dominant = p.m.summary(c), p.m.memory(c), p.m.dominant(c.t)
}

// dominant is the three largest values alive at the peak.
func (m *model) dominant(t *timeline) []Holding {
	var all []Holding
	for _, l := range t.lives {
		if int(l.first) <= t.at && int(l.last) > t.at {
			name := "work space"
			if !l.scratch {
				name = m.g.Values[l.owner].Name
			}
			all = append(all, Holding{name, l.bytes})
		}
	}
	slices.SortStableFunc(all, func(a, b Holding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return slices.Clip(all[:min(3, len(all))])
}

// candidate is a set of nodes to run again, simulated and placed.
type candidate struct {
	again  []bool
	t      *timeline
	cost   float64 // of what runs again
	placed pack.Solution
}

func (m *model) candidate(again []bool) (*candidate, error) {
	c := &candidate{again: again, t: m.simulate(m.order(again))}
	for _, s := range c.t.steps {
		if s.Again {
			c.cost += m.cost[s.Node]
		}
	}
	problem := pack.Problem{Buffers: make([]pack.Buffer, len(c.t.lives))}
	for i, l := range c.t.lives {
		problem.Buffers[i] = pack.Buffer{First: l.first, Last: l.last, Size: l.bytes, Align: alignment}
	}
	var err error
	c.placed, err = pack.Solve(problem)
	return c, err
}

// ranAgain is, by node, what steps really repeat: a set may name nodes that
// nobody needs again.
func ranAgain(steps []Step, nodes int) []bool {
	again := make([]bool, nodes)
	for _, s := range steps {
		again[s.Node] = again[s.Node] || s.Again
	}
	return again
}

func (m *model) summary(c *candidate) Summary {
	s := Summary{Peak: c.t.peak, Arena: c.placed.Height, Flops: m.flopsSum, Stashed: m.stashedBy(c.t)}
	if len(c.t.steps) > 0 {
		s.PeakNode = m.g.Nodes[c.t.steps[c.t.at].Node].Name
		s.PeakFormula = m.formula(c.t, c.t.at)
	}
	for _, st := range c.t.steps {
		if st.Again {
			s.ExtraFlops += m.flops[st.Node]
			s.Again++
		}
	}
	if m.total > 0 {
		s.Overhead = c.cost / m.total
	}
	return s
}

// formula is the bytes alive at a step, as a formula of the dims.
func (m *model) formula(t *timeline, at int) string {
	sum := graph.Num(0)
	err := graph.Try(func() {
		for _, l := range t.lives {
			if int(l.first) > at || int(l.last) <= at {
				continue
			}
			if l.scratch {
				n := m.g.Nodes[t.steps[at].Node]
				sum = sum.Add(n.Op.Scratch(n))
			} else {
				sum = sum.Add(m.g.Values[l.owner].Bytes())
			}
		}
	})
	if err != nil {
		return fmt.Sprint(t.live[at])
	}
	return sum.String()
}

// stashedBy is the bytes alive at the border between forward and backward
// that forward nodes made.
func (m *model) stashedBy(t *timeline) (sum int64) {
	border := slices.IndexFunc(t.steps, func(s Step) bool { return s.Again || m.g.Nodes[s.Node].Phase != graph.Forward })
	for _, l := range t.lives {
		if !l.scratch && border >= 0 && int(l.first) < border && int(l.last) > border && !m.lasting[l.owner] {
			sum += l.bytes
		}
	}
	return sum
}

// memory splits what is held at the peak by owner class.
func (m *model) memory(c *candidate) Memory {
	var mem Memory
	for i, v := range m.g.Values {
		if v.Kind == graph.State {
			mem.Optimizer += m.bytes[i]
		}
	}
	state, staging := m.fixedHeights()
	mem.Weights, mem.Staging = state-mem.Optimizer, staging
	isGrad := make([]bool, len(m.g.Values))
	for _, d := range m.g.Grads {
		isGrad[m.owner[d.Grad.ID]] = true
	}
	for _, l := range c.t.lives {
		if !l.scratch && int(l.first) <= c.t.at && int(l.last) > c.t.at && isGrad[l.owner] {
			mem.Gradients += l.bytes
		}
	}
	mem.Activations = c.placed.Height - mem.Gradients
	mem.Total = mem.Weights + mem.Optimizer + mem.Staging + c.placed.Height
	return mem
}

// fixedHeights are the sizes of the spaces outside the arena.
func (m *model) fixedHeights() (state, staging int64) {
	for i, v := range m.g.Values {
		switch v.Kind {
		case graph.Computed:
		case graph.Input:
			staging = align(staging) + m.bytes[i]
		default:
			state = align(state) + m.bytes[i]
		}
	}
	return state, staging
}

// fixedBytes is what lies outside the arena.
func (m *model) fixedBytes() int64 {
	state, staging := m.fixedHeights()
	return state + staging
}

// floor is the largest need of a single step: what it reads and writes, and
// what is alive across it in every plan.
func (m *model) floor() Floor {
	steps := m.order(make([]bool, len(m.g.Nodes)))
	held := m.held(steps)
	across := make([]int64, len(steps)+1)
	for o, h := range held {
		if h.from < h.to {
			across[h.from] += m.bytes[o]
			across[h.to] -= m.bytes[o]
		}
	}
	var f Floor
	run := int64(0)
	for i, s := range steps {
		run += across[i]
		need := run + m.scratch[s.Node]
		n := m.g.Nodes[s.Node]
		for _, o := range m.inputs[s.Node] {
			if !held[o].has(i) {
				need += m.bytes[o]
			}
		}
		for _, o := range m.outputs[s.Node] {
			if n.Outputs[0] == nil || o != n.Outputs[0].ID || !m.mayOverwrite(n, held, i) {
				need += m.bytes[o]
			}
		}
		if need > f.Peak {
			f = Floor{need, n.Name}
		}
	}
	return f
}

// stretch is half-open steps of the plain order.
type stretch struct{ from, to int32 }

func (s stretch) has(step int) bool { return int(s.from) <= step && step < int(s.to) }

// held is, by owner, the steps across which every plan holds a value without
// touching it: between its maker and its last reader, if it is made once.
func (m *model) held(steps []Step) []stretch {
	held := make([]stretch, len(m.g.Values))
	for i, s := range steps {
		for _, o := range m.inputs[s.Node] {
			held[o].to = int32(i)
		}
		for _, o := range m.outputs[s.Node] {
			held[o] = stretch{int32(i) + 1, int32(i) + 1}
		}
	}
	for o := range held {
		switch n := m.g.Values[o].Def; {
		case m.fixed[o]:
			held[o] = stretch{}
		case m.lasting[o]:
			held[o].to = int32(len(steps))
		case n != nil && m.mayRunAgain(n):
			held[o] = stretch{}
		}
	}
	return held
}

// mayOverwrite reports whether a node might write output 0 over an input.
func (m *model) mayOverwrite(n *graph.Node, held []stretch, step int) bool {
	for k, v := range n.Inputs {
		if v == nil || !overInput(n, k) {
			continue
		}
		o := m.owner[v.ID]
		if !m.fixed[o] && m.bytes[o] == m.bytes[n.Outputs[0].ID] && !held[o].has(step) {
			return true
		}
	}
	return false
}

// search finds the candidate that a request asks for.
type search struct {
	m        *model
	base     *candidate
	clusters []cluster.Cluster
	plan     *Plan
	forced   []bool
	target   int64 // arena bytes asked for; the plan's own if nothing was
}

func (s *search) run() (*candidate, error) {
	r := s.plan.Request
	var err error
	if s.forced, err = s.requested(); err != nil {
		return nil, err
	}
	if slices.Contains(s.forced, true) {
		if s.base, err = s.m.candidate(s.forced); err != nil {
			return nil, fmt.Errorf("planner: %w", err)
		}
	}
	name := r.Strategy
	limit, limited, err := s.limit()
	if err != nil {
		return nil, err
	}
	if name == "" || name == "auto" {
		name = "greedy"
		if !limited && r.MaxOverhead == 0 {
			name = "keep-all"
		}
	}
	i := slices.IndexFunc(strategies, func(st strategy) bool { return st.name == name })
	if i < 0 {
		return nil, fmt.Errorf("planner: no strategy is called %q; there are auto, %s", name, strategyNames())
	}
	s.plan.Strategy = name
	c, err := strategies[i].choose(s, limit, limited)
	if err != nil {
		var be *BudgetError
		if errors.As(err, &be) {
			return nil, err
		}
		return nil, fmt.Errorf("planner: %w", err)
	}
	if s.target = c.placed.Height; limited {
		s.target = limit
	}
	if limited && c.placed.Height > limit {
		return nil, s.cannot(limit, c, "")
	}
	if r.MaxOverhead > 0 && c.cost > r.MaxOverhead*s.m.total {
		return nil, &BudgetError{Floor: s.plan.Floor, Msg: fmt.Sprintf(
			"the plan costs %.1f%% more than the plain step, over the limit of %.1f%%; raise --max-overhead or the budget",
			100*c.cost/s.m.total, 100*r.MaxOverhead)}
	}
	return c, nil
}

// limit is the arena bytes that the budgets leave.
func (s *search) limit() (bytes int64, limited bool, err error) {
	r, base := s.plan.Request, s.plan.Baseline.Arena
	fixed := s.m.fixedBytes()
	if !r.Budget.isZero() {
		total := r.Budget.of(fixed + base)
		if bytes, limited = total-fixed, true; bytes < 0 {
			return 0, false, &BudgetError{Want: bytes, Fixed: fixed, Floor: s.plan.Floor, Msg: fmt.Sprintf(
				"budget %s cannot be met: parameters, optimizer states and inputs alone take %s, and the floor of the step's arena is %s (node %q)",
				bytesText(total), bytesText(fixed), bytesText(s.plan.Floor.Peak), s.plan.Floor.Node)}
		}
	}
	if !r.ActivationBudget.isZero() {
		if a := r.ActivationBudget.of(base); !limited || a < bytes {
			bytes, limited = a, true
		}
	}
	return bytes, limited, nil
}

// cannot is the error for a limit that was not reached.
func (s *search) cannot(limit int64, best *candidate, hint string) error {
	fixed := s.m.fixedBytes()
	f := s.plan.Floor
	msg := fmt.Sprintf("budget cannot be met: %s are left for the arena, the lowest plan found needs %s (total %s); no plan goes below %s because of node %q",
		bytesText(limit), bytesText(best.placed.Height), bytesText(best.placed.Height+fixed), bytesText(f.Peak), f.Node)
	if hint != "" {
		msg += "; " + hint
	}
	return &BudgetError{Want: limit, Best: best.placed.Height, Fixed: fixed, Floor: f, Msg: msg}
}

// requested is the nodes that settings turn on by name, level or cluster.
func (s *search) requested() ([]bool, error) {
	r := s.plan.Request
	on := make([]bool, len(s.m.g.Nodes))
	byName := map[string]*graph.Node{}
	if len(r.Again) > 0 {
		for _, n := range s.m.g.Nodes {
			byName[n.Name] = n
		}
	}
	for _, name := range r.Again {
		n := byName[name]
		if n == nil {
			return nil, fmt.Errorf("planner: no node is named %q", name)
		}
		if !repeatable(n) {
			return nil, fmt.Errorf("planner: node %q (%s) cannot run again: it is no repeatable forward node", name, n.Op.FullName())
		}
		on[n.ID] = s.m.mayRunAgain(n) // or else nobody needs it, or its bytes are gone
	}
	turnOn := func(c cluster.Cluster, want ClusterRequest) {
		for i, e := range c.Entries {
			if want.wants(i) {
				for _, n := range e.Nodes {
					on[n.ID] = true
				}
			}
		}
	}
	if r.Level > 0 {
		for _, c := range s.clusters {
			turnOn(c, ClusterRequest{Count: -1})
		}
	}
	for _, want := range r.Clusters {
		i := slices.IndexFunc(s.clusters, func(c cluster.Cluster) bool { return c.ID == want.ID })
		if i < 0 {
			s.plan.Warnings = append(s.plan.Warnings, fmt.Sprintf("%scluster %q is not in this graph", want.Where, want.ID))
			continue
		}
		if want.Strategy == 1 {
			turnOn(s.clusters[i], want)
		}
	}
	return on, nil
}

// ClusterIDs lists the clusters of the plan's graph.
func (p *Plan) ClusterIDs() []string {
	var ids []string
	for _, r := range p.Clusters {
		ids = append(ids, r.ID)
	}
	return ids
}

// rows is the plan table: every cluster, largest saving first.
func (s *search) rows(chosen *candidate) []Row {
	var rows []Row
	for _, c := range s.clusters {
		row := Row{ID: c.ID, Strategy: 1, Freq: len(c.Entries), Saving: c.Saving()}
		row.Bytes, _ = s.m.binding.Eval(row.Saving)
		for _, e := range c.Entries {
			row.Nodes = append(row.Nodes, e.Node.Name)
			if chosen.again[e.Node.ID] {
				row.Applied++
			}
		}
		s.weigh(&row, c, chosen)
		for _, w := range s.plan.Request.Clusters {
			if w.ID == c.ID {
				row.Requested = w.Count
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		switch {
		case a.Bytes != b.Bytes && a.Bytes > b.Bytes:
			return -1
		case a.Bytes != b.Bytes:
			return 1
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return rows
}

// weigh simulates the plan with the row the other way round.
func (s *search) weigh(row *Row, c cluster.Cluster, chosen *candidate) {
	other := slices.Clone(chosen.again)
	for _, e := range c.Entries {
		other[e.Node.ID] = row.Applied == 0
		for _, n := range e.Nodes {
			other[n.ID] = other[n.ID] || row.Applied == 0
		}
	}
	t := s.m.simulate(s.m.order(other))
	row.PeakEffect = t.peak - chosen.t.peak
	row.Cost = chosen.cost - s.m.againCost(t)
	if row.Applied == 0 {
		row.PeakEffect, row.Cost = -row.PeakEffect, -row.Cost
	}
	row.Cost /= max(s.m.total, 1)
}

func ids(nodes []*graph.Node) []int32 {
	out := make([]int32, len(nodes))
	for i, n := range nodes {
		out[i] = n.ID
	}
	return out
}

// bytesText is a size in an error: exact, and readable.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB (%d bytes)", float64(n)/(1<<30), n)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB (%d bytes)", float64(n)/(1<<20), n)
	}
	return fmt.Sprintf("%d bytes", n)
}
