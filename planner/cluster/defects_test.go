package cluster_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner/cluster"
)

var nodeLine = regexp.MustCompile(`^(.*?) = ([\w.]+?)(?:-(\d+))?(?:\{(.*)\})?\((.*)\)$`)

// latest are the forms that an operator has in programs without a number.
var latest = map[string]int{"Cast": 13, "Reshape": 14, "Add": 14, "Mul": 14, "Sub": 14, "Div": 14, "Softmax": 13, "Unsqueeze": 13,
	"MatMul": 13, "Transpose": 13, "Gather": 13, "Split": 13, "Dropout": 13, "Gemm": 13, "Slice": 13, "Expand": 13, "Where": 16,
	"Range": 11, "Relu": 14, "Shape": 15, "Conv": 11, "Squeeze": 13, "Tile": 13}

// program reads a program in text: "input x f32[batch, 64]", "weight w …", whose
// gradient is returned, nodes as "y f32[batch, 64], mask = ms.Op-1{to=1}(x, w)",
// where "ms" is Microsoft's domain and a type may be left out.
func program(t *testing.T, src string) *graph.Outline {
	t.Helper()
	o := &graph.Outline{Values: map[string]graph.OutlineValue{}}
	declare := func(s string) string {
		name, typ, ok := strings.Cut(strings.TrimSpace(s), " ")
		if !ok {
			return name
		}
		kind, dims, _ := strings.Cut(strings.TrimSuffix(typ, "]"), "[")
		v := graph.OutlineValue{Known: true}
		if v.Type, ok = graph.ParseDType(kind); !ok {
			t.Fatalf("type of %q", s)
		}
		for d := range strings.SplitSeq(dims, ",") {
			if d = strings.TrimSpace(d); d != "" {
				dim, err := graph.ParseDim(d)
				if err != nil {
					t.Fatal(err)
				}
				v.Shape = append(v.Shape, dim)
			}
		}
		o.Values[name] = v
		return name
	}
	for line := range strings.Lines(src) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case word == "input":
			o.Inputs = append(o.Inputs, declare(rest))
		case word == "weight":
			name := declare(rest)
			o.Inputs, o.Outputs = append(o.Inputs, name), append(o.Outputs, name+"_grad")
		default:
			m := nodeLine.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("no node: %s", line)
			}
			n := graph.OutlineNode{Op: m[2], Since: 1, Of: -1}
			if op, ok := strings.CutPrefix(n.Op, "ms."); ok {
				n.Domain, n.Op = "com.microsoft", op
			} else if latest[n.Op] > 0 {
				n.Since = latest[n.Op]
			}
			if m[3] != "" {
				n.Since, _ = strconv.Atoi(m[3])
			}
			for a := range strings.SplitSeq(m[4], ",") {
				if key, value, ok := strings.Cut(a, "="); ok {
					k, err := strconv.ParseInt(value, 10, 64)
					if err != nil {
						t.Fatalf("attribute %s of %s", a, line)
					}
					n.Attrs = append(n.Attrs, graph.Attr{Name: key, Value: k})
				}
			}
			for out := range strings.SplitSeq(outsOf(m[1]), ";") {
				n.Outputs = append(n.Outputs, declare(out))
			}
			n.Name = n.Outputs[0]
			for in := range strings.SplitSeq(m[5], ",") {
				n.Inputs = append(n.Inputs, strings.TrimSpace(in))
			}
			o.Nodes = append(o.Nodes, n)
		}
	}
	return o
}

// outsOf parts a list of outputs, whose shapes have commas too, by semicolons.
func outsOf(s string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			return ';'
		}
		return r
	}, s)
}

// TestDefects shows, case by case, what ONNX Runtime 1.19 does and what the
// mended rules do.
func TestDefects(t *testing.T) {
	golden.Files(t, "testdata/defects/*.txt", func(t *testing.T, input string) string {
		o := program(t, input)
		var out strings.Builder
		for _, by := range []struct{ name, compat string }{{"upstream", "1.19"}, {"ours", ""}} {
			a, err := cluster.Analyse(o, cluster.Rules{ProbeLevel: 1, Boundary: true, Compat: by.compat, Library: kernels.Library})
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString(by.name + "\n")
			for k, i := range a.Boundaries {
				fmt.Fprintf(&out, "  layer at %s keeps %s\n", o.Nodes[i].Name, a.Kept[k])
			}
			for _, k := range a.Keys() {
				saving := k.Saving
				if by.compat != "" {
					saving = k.ORTSaving
				}
				fmt.Fprintf(&out, "  %s × %d saves %s", &k, len(k.Members), cluster.Formula(saving))
				if keeps, zero := k.Keeps.Const(); by.compat == "" && !(zero && keeps == 0) {
					fmt.Fprintf(&out, ", keeps %s more", cluster.Formula(k.Keeps))
				}
				if !k.Batch && by.compat == "" {
					out.WriteString(", whatever the batch")
				}
				var views, spelled []string
				for _, m := range k.Members {
					for _, option := range a.Options(m) {
						for _, i := range option.Views {
							views = append(views, o.Nodes[i].Name)
						}
						if option.Spelling != "" && !slices.Contains(spelled, option.Spelling) {
							spelled = append(spelled, option.Spelling)
						}
					}
				}
				if len(views) > 0 {
					fmt.Fprintf(&out, ", with views %s", strings.Join(views, " "))
				}
				if len(spelled) > 0 {
					fmt.Fprintf(&out, ", upstream spells %s", strings.Join(spelled, " "))
				}
				out.WriteString("\n")
			}
			for _, d := range a.Dropped {
				fmt.Fprintf(&out, "  not %s: %s\n", d.ID, d.Why)
			}
		}
		return out.String()
	})
}

// TestEveryDefect: the manual says of every number where it is shown, and there
// is a case there that names it, with upstream's behaviour and ours.
func TestEveryDefect(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[int]bool{7: true, 11: true, 12: true} // no numbers
	for _, m := range regexp.MustCompile(`(?m)^//\tD(\d+) .* (\S+)$`).FindAllStringSubmatch(string(manual), -1) {
		src, err := os.ReadFile(m[2])
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`(?m)^#.*\bD` + m[1] + `\b`)
		there := false
		for c := range strings.SplitSeq(string(src), "\n\n") {
			lower := strings.ToLower(c)
			there = there || names.MatchString(c) && strings.Contains(lower, "upstream") && strings.Contains(lower, "\nours")
		}
		if !there {
			t.Errorf("%s has no pair for D%s", m[2], m[1])
		}
		n, _ := strconv.Atoi(m[1])
		if shown[n] {
			t.Errorf("D%d is in the manual twice", n)
		}
		shown[n] = there
	}
	for n := 1; n <= 27; n++ {
		if !shown[n] {
			t.Errorf("D%d is shown nowhere", n)
		}
	}
}
