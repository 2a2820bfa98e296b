package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/memopt/golden"
	"memopt/planner/cluster"
)

// TestChoose runs testdata/choose.txt: a program, "request" lines and perhaps
// "level N"; what ONNX Runtime 1.19 makes of them, and what we do: how requests
// were met, the lines of the table, and the nodes that are added or changed.
func TestChoose(t *testing.T) {
	golden.Cases(t, "testdata/choose.txt", func(input string) string {
		var program, asked []string
		level := 0
		for line := range strings.SplitSeq(input, "\n") {
			if r, ok := strings.CutPrefix(line, "request "); ok {
				asked = append(asked, r)
			} else if n, err := fmt.Sscanf(line, "level %d", &level); n != 1 || err != nil {
				program = append(program, line)
			}
		}
		o := outline(t, strings.Join(program, "\n"))
		var out strings.Builder
		for _, by := range []struct{ name, compat string }{{"upstream", "1.19"}, {"ours", ""}} {
			a := probe(t, o, cluster.Rules{ProbeLevel: 1, Compat: by.compat})
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
			after := cluster.Rewrite(a, chosen.Choices, 5)
			for _, line := range changes(o, after) {
				out.WriteString("  + " + strings.ReplaceAll(line, "\t", " ") + "\n")
			}
		}
		return out.String()
	})
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
