package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/planner/cluster"
)

// TestChoose runs the files of testdata/choose: a program, "request" lines and perhaps
// "level N"; what ONNX Runtime 1.19 makes of them, and what we do: how requests
// were met, the lines of the table, and the nodes that are added or changed.
// "boundary" ends clusters where layers do, which ONNX Runtime has at levels
// only. "report" adds what the node-level report says of the requests, "order"
// what runs behind the border, and "peak" what that comes to in memory, beside
// the sum of the table's lines that are on.
func TestChoose(t *testing.T) {
	golden.Files(t, "testdata/choose/*.txt", func(t *testing.T, input string) string {
		var program, asked []string
		level := 0
		has := map[string]bool{"boundary": false, "report": false, "order": false, "peak": false}
		for line := range strings.SplitSeq(input, "\n") {
			if _, known := has[line]; known {
				has[line] = true
			} else if r, ok := strings.CutPrefix(line, "request "); ok {
				asked = append(asked, r)
			} else if n, err := fmt.Sscanf(line, "level %d", &level); n != 1 || err != nil {
				program = append(program, line)
			}
		}
		o := outline(t, strings.Join(program, "\n"))
		var out strings.Builder
		for _, by := range []struct{ name, compat string }{{"upstream", "1.19"}, {"ours", ""}} {
			a := probe(t, o, cluster.Rules{ProbeLevel: 1, Compat: by.compat, Boundary: has["boundary"] && (level > 0 || by.compat == "")})
			var list []cluster.Request
			if len(asked) > 0 {
				list = requests(t, strings.Join(asked, ","))
			}
			if level > 0 {
				list = atLevel(t, a, level)
			}
			chosen := a.Choose(list)
			fmt.Fprintf(&out, "%s:\n", by.name)
			lines, err := a.Table(list, map[string]int64{"n": 10})
			if err != nil {
				return err.Error()
			}
			for _, l := range lines {
				state := "off"
				if l.On {
					state = "on"
				}
				fmt.Fprintf(&out, "  %-3s %s ×%d %s = %s\n", state, &l.Key, len(l.Key.Members), l.Saving, l.Value)
			}
			for i, r := range list {
				fmt.Fprintf(&out, "  %s:%d:%d matched %d, applied %d\n", r.ID, r.Type, r.Count, chosen.Tallies[i].Matched, chosen.Tallies[i].Applied)
			}
			if has["report"] {
				for _, line := range statuses(a.Report(list, "")) {
					out.WriteString("  report: " + line + "\n")
				}
			}
			after := cluster.Rewrite(a, chosen.Choices, 5)
			if !has["order"] && !has["peak"] {
				for _, line := range changes(o, after) {
					out.WriteString("  + " + strings.ReplaceAll(line, "\t", " ") + "\n")
				}
				continue
			}
			order, err := cluster.MemoryEfficientOrder(after)
			if err != nil {
				return err.Error()
			}
			if has["order"] {
				out.WriteString("  order")
				for _, i := range order[slices.IndexFunc(order, func(i int) bool { return after.Nodes[i].Op == "YieldOp" }):] {
					out.WriteString(" " + after.Nodes[i].Name)
				}
				out.WriteString("\n")
			}
			if has["peak"] {
				sum := 0.0
				for _, l := range lines {
					if l.On {
						sum += l.Bytes
					}
				}
				l, err := cluster.Simulate(after, order, map[string]int64{"n": 10})
				if err != nil {
					return err.Error()
				}
				fmt.Fprintf(&out, "  what is on saves %.0f in sum; %d at the border, the peak is %d at %s\n", sum, l.Stored, l.Peak, after.Nodes[l.At].Name)
			}
		}
		return out.String()
	})
}

// statuses are the lines of a node-level report about what settings came to.
func statuses(report string) (out []string) {
	id := ""
	for line := range strings.SplitSeq(report, "\n") {
		if _, rest, ok := strings.Cut(line, " subgraph "); ok {
			id, _, _ = strings.Cut(rest, " ")
		}
		if _, rest, ok := strings.Cut(line, "Status       : "); ok {
			status, _, _ := strings.Cut(rest, "|")
			out = append(out, id+" "+strings.TrimSpace(status))
		}
	}
	return out
}

// TestPlaces: layers are places in execution order, whatever the rules.
func TestPlaces(t *testing.T) {
	o := training(t, "onnxruntime/3layer_bloom_optimized_training")
	places := []cluster.Places{{First: 0, Last: 0}, {First: 2, Last: 7}}
	a := probe(t, o, cluster.Rules{ProbeLevel: 1, Boundary: true})
	chosen := a.Choose([]cluster.Request{{ID: "Cast+Reshape+", Type: cluster.Full, Count: -1, Places: places}})
	var layers []string
	for _, c := range chosen.Choices {
		layers = append(layers, strings.Split(o.Nodes[a.Plans[c.Plan].Entry].Name, "/")[4])
	}
	if got := strings.Join(layers, " "); got != "h.0 h.2" || chosen.Tallies[0] != (cluster.Tally{Matched: 3, Applied: 2}) {
		t.Errorf("layers %s, %+v", got, chosen.Tallies[0])
	}
}
