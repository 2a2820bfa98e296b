package launch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/planner/launch"
	"memopt/planner/outside"
)

// TestLaunches: what plans decide, as launches with their places, or why they cannot be. A case is what is decided (steps by node,
// "again h" for one that runs again; places of lives in the order in which they begin; moves as value, bytes, out, gone, in, back, far), and a graph.
func TestLaunches(t *testing.T) {
	golden.Cases(t, "testdata/launches.txt", func(input string) string {
		p, err := decided(input)
		if err != nil {
			return "error: " + err.Error()
		}
		x, err := launch.Of(p)
		if err != nil {
			return "error: " + err.Error()
		}
		s, err := x.Whole()
		if err != nil {
			return "error: " + err.Error()
		}
		var out strings.Builder
		for i := range s.Launches {
			l := &s.Launches[i]
			name := "copy"
			if l.Node != nil {
				name = l.Node.Name
			}
			if l.Again {
				name += " again"
			}
			fmt.Fprintf(&out, "%d %s: %s -> %s", i, name, refs(l.In), refs(l.Out))
			if l.Scratch.Bytes > 0 {
				fmt.Fprintf(&out, ", works in %s", at(l.Scratch))
			}
			out.WriteByte('\n')
		}
		for _, m := range s.Moves {
			fmt.Fprintf(&out, "moves %s out %d, gone %d, in %d, back %d: %s -> %s\n", m.From.Value.Name, m.Out, m.Gone, m.In, m.Back, at(m.From), at(m.To))
		}
		for _, l := range s.Lives {
			fmt.Fprintf(&out, "life of %d B at %d: [%d, %d)\n", l.Bytes, l.Offset, l.First, l.Last)
		}
		fmt.Fprintf(&out, "outputs %s; arena %d, state %d, staging %d, given %d, elsewhere %d, ring %d\n", refs(s.Outputs), s.Arena, s.State, s.Staging, s.Given, s.Elsewhere, s.Ring)
		return out.String()
	})
}

func refs(all []schedule.Ref) string {
	var out []string
	for _, r := range all {
		if r.Value == nil {
			out = append(out, "_")
		} else {
			out = append(out, r.Value.Name+"@"+at(r))
		}
	}
	return strings.Join(out, " ")
}

func at(r schedule.Ref) string { return fmt.Sprintf("%s[%d:%d]", r.Space, r.Offset, r.Offset+r.Bytes) }

// decided reads a case.
func decided(input string) (p launch.Plan, err error) {
	var text strings.Builder
	var steps []string
	p.Dims, p.Offsets = map[string]int64{}, []int64{}
	for line := range strings.Lines(input) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Fields(rest)
		numbers := func(from int) (all []int64) {
			for _, f := range fields[min(from, len(fields)):] {
				n, failed := strconv.ParseInt(f, 10, 64)
				if failed != nil {
					err = failed
				}
				all = append(all, n)
			}
			return all
		}
		switch word {
		case "#":
		case "dims":
			for _, f := range fields {
				name, n, _ := strings.Cut(f, "=")
				if p.Dims[name], err = strconv.ParseInt(n, 10, 64); err != nil {
					return p, err
				}
			}
		case "steps":
			steps = fields
		case "places":
			p.Offsets = numbers(0)
		case "arena":
			p.Arena = numbers(0)[0]
		case "given":
			p.OutputsGiven = true
		case "states":
			p.States = fields[0]
		case "move":
			n := numbers(1)
			p.Moves = append(p.Moves, outside.Move{Value: fields[0], Bytes: n[0], Out: int32(n[1]), Gone: int32(n[2]), In: int32(n[3]), Back: int32(n[4]), Far: n[5]})
		default:
			text.WriteString(line)
		}
	}
	if err != nil {
		return p, err
	}
	if p.Graph, err = graph.Parse(kernels.Library, text.String()); err != nil {
		return p, err
	}
	again := false
	for _, name := range steps {
		if name == "again" {
			again = true
			continue
		}
		step := launch.Step{Node: int32(len(p.Graph.Nodes)), Again: again} // one that there is not
		for _, n := range p.Graph.Nodes {
			if n.Name == name {
				step.Node = n.ID
			}
		}
		p.Steps, again = append(p.Steps, step), false
	}
	return p, nil
}
