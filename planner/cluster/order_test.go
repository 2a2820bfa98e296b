package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/planner/cluster"
)

// outline reads "name Op inputs -> outputs" a line, where Op may be of a domain
// and a form as in com.microsoft.Gelu-1, - is no value and a=b an attribute; "outputs ..." for
// what the program returns; "value name type dims"; and comments.
func outline(t *testing.T, src string) *graph.Outline {
	t.Helper()
	o := &graph.Outline{Values: map[string]graph.OutlineValue{}}
	made := map[string]bool{}
	for line := range strings.SplitSeq(src, "\n") {
		left, right, isNode := strings.Cut(line, "->")
		words := strings.Fields(left)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case words[0] == "outputs":
			o.Outputs = words[1:]
		case words[0] == "value":
			typ, ok := graph.ParseDType(words[2])
			if !ok {
				t.Fatalf("%s: no type", line)
			}
			v := graph.OutlineValue{Type: typ, Known: true}
			for _, d := range words[3:] {
				dim, err := graph.ParseDim(d)
				if err != nil {
					t.Fatal(err)
				}
				v.Shape, v.Spelled = append(v.Shape, dim), append(v.Spelled, d)
			}
			o.Values[words[1]] = v
		case isNode:
			n := graph.OutlineNode{Name: words[0], Op: words[1], Outputs: strings.Fields(right), Of: -1, Since: 1}
			for _, in := range words[2:] {
				if name, value, ok := strings.Cut(in, "="); ok {
					n.Attrs = append(n.Attrs, graph.Attr{Name: name, Value: value})
					continue
				}
				if in == "-" {
					in = ""
				}
				n.Inputs = append(n.Inputs, in)
			}
			if op, form, ok := strings.Cut(n.Op, "-"); ok {
				n.Op = op
				fmt.Sscan(form, &n.Since)
			}
			if i := strings.LastIndex(n.Op, "."); i >= 0 {
				n.Domain, n.Op = n.Op[:i], n.Op[i+1:]
			}
			for _, out := range n.Outputs {
				made[out] = true
			}
			o.Nodes = append(o.Nodes, n)
		default:
			t.Fatalf("a line that is no node: %s", line)
		}
	}
	given := map[string]bool{}
	for _, n := range o.Nodes {
		for _, in := range n.Inputs {
			if in != "" && !made[in] && !given[in] {
				given[in] = true
				o.Inputs = append(o.Inputs, in)
			}
		}
	}
	return o
}

func TestOrder(t *testing.T) {
	golden.Cases(t, "testdata/order.txt", func(input string) string {
		o := outline(t, input)
		var out strings.Builder
		for _, by := range []struct {
			name  string
			order func(*graph.Outline) ([]int, error)
		}{{"default", cluster.DefaultOrder}, {"memory", cluster.MemoryEfficientOrder}} {
			order, err := by.order(o)
			out.WriteString(by.name + ":")
			if err != nil {
				fmt.Fprintf(&out, " %v", err)
			}
			for _, i := range order {
				out.WriteString(" " + o.Nodes[i].Name)
			}
			out.WriteString("\n")
		}
		return out.String()
	})
}
