package planner

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
	"memopt/planner/cluster"
)

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
	t := s.m.trial(other)
	defer s.m.recycle(t)
	row.PeakEffect = t.peak - chosen.t.peak
	row.Cost = chosen.cost - s.m.againCost(t)
	if row.Applied == 0 {
		row.PeakEffect, row.Cost = -row.PeakEffect, -row.Cost
	}
	row.Cost /= max(s.m.total, 1)
}
