package memopt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/planfile"
)

// TestDefects runs testdata/ort/defects.txt: what ONNX Runtime 1.19 shows of a
// trainer's program, and what we do. A case is lines of words, then a graph:
//
//	set NAME=VALUE …   settings, of both
//	ours NAME=VALUE …  settings that ONNX Runtime has not
//	plans JSON         a file of plans
//	peaks              ours adds the formulas of the peak
//	draws STEP …       the masks of a random node and its copy; f is a forward pass alone
func TestDefects(t *testing.T) {
	golden.Cases(t, "testdata/ort/defects.txt", func(input string) string {
		var both, ours, steps, text []string
		plans, peaks := "", false
		for line := range strings.SplitSeq(input, "\n") {
			word, rest, _ := strings.Cut(line, " ")
			switch word {
			case "set":
				both = strings.Fields(rest)
			case "ours":
				ours = strings.Fields(rest)
			case "draws":
				steps = strings.Fields(rest)
			case "plans":
				plans = rest
			case "peaks":
				peaks = true
			default:
				text = append(text, line)
			}
		}
		if steps != nil {
			return draws(t, strings.Join(text, "\n"), steps)
		}
		g, err := graph.Parse(kernels.Library, strings.Join(text, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		model := filepath.Join(dir, "model.onnx")
		if err := onnx.Write(model, g); err != nil {
			t.Fatal(err)
		}
		open := func(settings ...string) (*step.Model, *planner.Plan) {
			c := configs.Default()
			if plans != "" {
				if c, err = configs.ParseJSON([]byte(plans), "plans.json"); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range settings {
				name, value, _ := strings.Cut(s, "=")
				if err := c.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: "--" + name}); err != nil {
					t.Fatal(err)
				}
			}
			c.Cost = "flops" // as ONNX Runtime weighs it
			m, err := Open(model, c)
			if err != nil {
				t.Fatal(err)
			}
			m.Outline = cluster.Of(m.Graph) // with all shapes, as trainers' files have
			p, err := m.Plan()
			if err != nil {
				t.Fatal(err)
			}
			return m, p
		}
		var out strings.Builder
		m, p := open(append(both, "compat=1.19")...)
		var shown strings.Builder
		if err := m.Summary(&shown, p, "info"); err != nil {
			t.Fatal(err)
		}
		table, _, _ := strings.Cut(shown.String(), "\nPeak in ")
		section(&out, "upstream shows", table)
		m, p = open(append(both, ours...)...)
		out.WriteString("ours\n")
		for _, r := range p.Clusters {
			fmt.Fprintf(&out, "  %s: %d of %d on; saves %s = %d; alone the peak falls by %d, here by %d, for %.1f %% more work\n",
				r.Key, r.Applied, r.Freq, r.Saving, r.Bytes, r.PeakAlone, r.PeakEffect, 100*r.Cost)
		}
		for _, w := range p.Warnings {
			fmt.Fprintf(&out, "  %s\n", w)
		}
		fmt.Fprintf(&out, "  the peak is %d instead of %d, at %.1f %% more work\n", p.Result.Peak, p.Baseline.Peak, 100*p.Result.Overhead)
		if peaks {
			for _, r := range planfile.Of(p, m.Path).Formulas.Ranges {
				for _, piece := range r.Pieces {
					fmt.Fprintf(&out, "  for %s from %d to %d the peak is %s\n", r.Dim, piece.From, piece.To, piece.Formula)
				}
			}
		}
		return out.String()
	})
}

// section is lines under a title, without those that say nothing.
func section(out *strings.Builder, title, text string) {
	out.WriteString(title + "\n")
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			out.WriteString("  " + line + "\n")
		}
	}
}

// draws runs a program whose node y draws at random, and is copied as y', where
// y is an output and the copy's mask becomes the output m. ONNX Runtime gives
// each of both a generator of its own that goes on with every run.
func draws(t *testing.T, text string, steps []string) string {
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Again: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := p.Rewrite()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "after.onnx")
	if err := onnx.Write(path, rewritten); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := onnx.Parse(src, "after.onnx", kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	half := keepAll(t, forwardOf(t, whole), nil)
	full := keepAll(t, whole, nil)
	var theirs, ours strings.Builder
	forward, copied := 0, 0
	for _, s := range steps {
		number, alone := strings.CutSuffix(s, "f")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		forward++
		if alone {
			fmt.Fprintf(&theirs, "  step %d, forward alone: draw %d\n", n, forward)
			fmt.Fprintf(&ours, "  step %d, forward alone: %s\n", n, mask(runStep(t, half, n)["y"]))
			continue
		}
		copied++
		same := "the same"
		if forward != copied {
			same = "another mask, and wrong gradients"
		}
		fmt.Fprintf(&theirs, "  step %d: draw %d, of the copy draw %d: %s\n", n, forward, copied, same)
		x := runStep(t, full, n)
		a, b := mask(x["y"]), mask(x["m"])
		if same = "the same"; a != b {
			same = "another mask"
		}
		fmt.Fprintf(&ours, "  step %d: %s, of the copy %s: %s\n", n, a, b, same)
	}
	return "upstream\n" + theirs.String() + "ours\n" + ours.String()
}

// forwardOf is the forward pass of a graph, by itself.
func forwardOf(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	half := g.Clone()
	half.Outputs = slices.DeleteFunc(half.Outputs, func(v *graph.Value) bool { return v.Def != nil && v.Def.Phase != graph.Forward })
	half.Grads, half.Updates = nil, nil
	half.Prune()
	if len(half.Outputs) == 0 || len(half.Nodes) == len(g.Nodes) {
		t.Fatalf("%d outputs and %d nodes of %d are forward", len(half.Outputs), len(half.Nodes), len(g.Nodes))
	}
	return half
}

// mask is which elements are there.
func mask(x *graph.Tensor) string {
	var out strings.Builder
	for i := range x.Len() {
		bit := "1"
		if x.Float(i) == 0 {
			bit = "0"
		}
		out.WriteString(bit)
	}
	return out.String()
}

// runStep does one step, all of whose inputs are ones, on a device of its own.
func runStep(t *testing.T, p *planner.Plan, step uint64) map[string]*graph.Tensor {
	t.Helper()
	return runWith(t, p, func(_ *graph.Value, x *graph.Tensor) {
		for i := range x.Len() {
			x.SetFloat(i, 1)
		}
	}, step)
}
