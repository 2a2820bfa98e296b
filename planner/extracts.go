package planner

import (
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// Extract is a row of the plan table whose values can be kept in less: that was decided when the graph was made, and
// the table tells it. Its entries are in execution order.
type Extract struct {
	ID      string
	Nodes   []string
	Savings []graph.Dim
	On      []bool
	// How says of each what is kept, and why that will do.
	How []string
	// Form is the step with the row on or off: alone, or with the others as they are.
	Form func(alone, on bool) (*graph.Graph, error)
}

// Wants reports whether a setting asks for an entry of an extract.
func (r Request) Wants(id string, entry int) bool {
	for _, w := range r.Clusters {
		if w.ID == id && w.Type == cluster.Compromise && w.Wants(entry) {
			return true
		}
	}
	return false
}

// extracted is how often an ID's value can be kept in less.
func (r Request) extracted(id string) int {
	for _, e := range r.Extracts {
		if e.ID == id {
			return len(e.Nodes)
		}
	}
	return 0
}

// extractRows are the rows of what can be kept in less. plain is the step in which no value is, here the one that was
// chosen, and again what that runs again.
func (s *Search) extractRows(again []bool, plain, here form) (rows []Cluster, err error) {
	p := s.plan
	for i := range p.Request.Extracts {
		e := &p.Request.Extracts[i]
		row := Cluster{ID: e.ID, Strategy: cluster.Compromise, Key: fmt.Sprintf("%s:%d:-1", e.ID, cluster.Compromise),
			Canonical: []string{e.ID}, Freq: len(e.Nodes), Matched: len(e.Nodes), Beyond: true, Nodes: e.Nodes, How: counted(e.How)}
		all := graph.Num(0)
		for k, saving := range e.Savings {
			all = all.Add(saving)
			if e.On[k] {
				row.apply(k)
				p.Selection.Bytes += s.m.size(saving)
			}
		}
		row.Saving, row.Bytes = cluster.Formula(all), s.m.size(all)
		_, row.BatchIndependent = all.Const()
		for _, w := range p.Request.Clusters {
			if w.ID == e.ID && w.Type == cluster.Compromise {
				row.Requested = w.Count
			}
		}
		if err := s.weighExtract(&row, e, again, plain, here); err != nil {
			return nil, err
		}
		if row.On {
			p.Selection.Rows++
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// counted is texts, each once, with how often each is there if there are several.
func counted(all []string) string {
	var parts []string
	for i, text := range all {
		if slices.Contains(all[:i], text) {
			continue
		}
		n := 0
		for _, other := range all[i:] {
			if other == text {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("%d × %s", n, text))
	}
	if len(parts) == 1 {
		return all[0]
	}
	return strings.Join(parts, "; ")
}

// form is a step that was simulated in another form.
type form struct {
	peak  int64
	cost  float64
	flops int64
}

// weighExtract simulates the step with the row the other way round, and with the row alone.
func (s *Search) weighExtract(row *Cluster, e *Extract, again []bool, plain, here form) error {
	alone, err := s.modelOf(e, true, true, nil)
	if err != nil {
		return err
	}
	toggled, err := s.modelOf(e, false, !row.On, alone)
	if err != nil {
		return err
	}
	other := toggled.formOf(s.m, again)
	row.PeakAlone = plain.peak - alone.formOf(s.m, nil).peak
	row.setEffects(other.peak-here.peak, share(here.cost-other.cost, plain.cost), here.flops-other.flops)
	return nil
}

// modelOf is the step in a form of an extract, which may be the last one.
func (s *Search) modelOf(e *Extract, alone, on bool, last *model) (*model, error) {
	g, err := e.Form(alone, on)
	if err != nil || last != nil && last.g == g {
		return last, err
	}
	m, err := newModel(g, s.plan.Request)
	if err != nil {
		return nil, err
	}
	return m, m.reprice(s.plan.Request.Costs)
}

// named is, by node of m, which run again if some of other do. The two are forms of one step, whose nodes are told by
// their names.
func (m *model) named(other *model, again []bool) []bool {
	on := make([]bool, len(m.g.Nodes))
	if m == other {
		copy(on, again)
	} else {
		names := map[string]bool{}
		for id, is := range again {
			if is {
				names[other.g.Nodes[id].Name] = true
			}
		}
		for i, n := range m.g.Nodes {
			on[i] = len(names) > 0 && names[n.Name]
		}
	}
	for i, n := range m.g.Nodes {
		on[i] = on[i] && m.mayRunAgain(n)
	}
	return on
}

// formOf simulates the step with the nodes running again that do in another form of it.
func (m *model) formOf(other *model, again []bool) form {
	t := m.simulate(m.order(m.named(other, again)))
	cost, flops, _ := m.again(t.steps)
	return form{t.peak, m.total + m.own + cost, m.flopsSum + flops}
}
