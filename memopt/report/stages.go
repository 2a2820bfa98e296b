package report

import (
	"fmt"
	"io"
	"strings"

	"memopt/internal/schedule"
	"memopt/planner"
)

// Clusters prints every cluster with its nodes, for --show.
func Clusters(w io.Writer, p *planner.Plan) error {
	for _, r := range p.Clusters {
		Text(w, 4, "%s freq %d, applied %d, %s bytes\n", r.Key, r.Freq, r.Applied, Thousands(r.Bytes))
		for i, n := range r.Nodes {
			Text(w, 4, "  %d %s\n", i, n)
		}
	}
	return nil
}

// Lives prints the live ranges in the arena in the order of their steps.
func Lives(w io.Writer, p *planner.Plan) error {
	s, err := p.Schedule()
	if err != nil {
		return err
	}
	rows := [][]string{{"first", "last", "bytes", "offset"}}
	for _, l := range s.Lives {
		rows = append(rows, []string{fmt.Sprint(l.First), fmt.Sprint(l.Last), fmt.Sprint(l.Bytes), fmt.Sprint(l.Offset)})
	}
	Table(w, "=rrrr", rows)
	return nil
}

// Arena prints every launch with the places of its inputs and outputs.
func Arena(w io.Writer, p *planner.Plan) error {
	s, err := p.Schedule()
	if err != nil {
		return err
	}
	for i, l := range s.Launches {
		name, again := "copy to state", ""
		if l.Node != nil {
			name = l.Node.Name + " (" + l.Node.Op.FullName() + ")"
		}
		if l.Again {
			again = " again"
		}
		Text(w, 4, "%d %s%s\n", i, name, again)
		place := func(what string, r schedule.Ref) {
			if r.Value != nil {
				Text(w, 4, "    %s %s+%d..%d %s\n", what, r.Space, r.Offset, r.Offset+r.Bytes, r.Value.Name)
			} else if r.Bytes > 0 {
				fmt.Fprintf(w, "    %s %s+%d..%d\n", what, r.Space, r.Offset, r.Offset+r.Bytes)
			}
		}
		for _, r := range l.In {
			place("reads ", r)
		}
		place("uses  ", l.Scratch)
		for _, r := range l.Out {
			place("writes", r)
		}
	}
	return nil
}

// Chains prints which elementwise launches are fused, and the bytes this saves.
func Chains(w io.Writer, p *planner.Plan) error {
	_, c, err := p.Chained()
	if err != nil {
		return err
	}
	rows := [][]string{{"chains", "stored", "bytes less", "shape", "operators, in order"}}
	for _, r := range c.Rows {
		rows = append(rows, []string{fmt.Sprint(r.Count), fmt.Sprintf("%d of %d", r.Stored, len(r.Operators)), Thousands(r.Saved),
			strings.ReplaceAll(fmt.Sprint(r.Shape), " ", ", "), strings.Join(r.Operators, ", ")})
	}
	if len(rows) > 1 {
		Table(w, "=rrrlt", rows)
	}
	Text(w, 2, "%s\n", c)
	return nil
}
