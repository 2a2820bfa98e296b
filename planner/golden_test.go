package planner_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
	"memopt/planner/cluster"
)

// TestPlans runs the cases of testdata: comment lines, a request, a graph,
// ----, the plan, and an empty line between cases. A request is a line
//
//	plan strategy=optimize activation=75% again=h,y batch=2
//
// where words that are not of the request are dims. A line that begins with
// train (train sgd clip=1 micro=2) extends a forward graph to a step.
func TestPlans(t *testing.T) {
	golden.Files(t, "testdata/*.txt", planText)
}

// planText plans one case and prints what came out.
func planText(t *testing.T, input string) string {
	r := planner.Request{Dims: map[string]int64{}}
	train := ""
	var text []string
	for line := range strings.SplitSeq(input, "\n") {
		switch {
		case strings.HasPrefix(line, "plan"):
			parseRequest(t, strings.Fields(line)[1:], &r)
		case strings.HasPrefix(line, "train "):
			train = strings.TrimPrefix(line, "train ")
		default:
			text = append(text, line)
		}
	}
	g, err := graph.Parse(kernels.Library, strings.Join(text, "\n"))
	if err != nil {
		t.Fatalf("%v\n%s", err, input)
	}
	if train != "" {
		if g, err = autograd.TrainStep(g, trainOptions(t, strings.Fields(train))); err != nil {
			t.Fatalf("%v\n%s", err, input)
		}
	}
	p, err := planner.Make(g, r)
	if err == nil {
		err = p.Tabulate()
	}
	if err != nil {
		return err.Error()
	}
	return show(p)
}

func trainOptions(t *testing.T, words []string) autograd.Options {
	o := autograd.Options{Optimizer: words[0]}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%q: %v", w, err)
		}
		switch key {
		case "clip":
			o.ClipNorm = float64(n)
		case "micro":
			o.MicroBatches = n
		default:
			t.Fatalf("%q: there are clip and micro", w)
		}
	}
	return o
}

func parseRequest(t *testing.T, words []string, r *planner.Request) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		number, percent := strings.CutSuffix(value, "%")
		n, _ := strconv.ParseFloat(number, 64)
		size := planner.Size{Bytes: int64(n)}
		if percent {
			size = planner.Size{Percent: n}
		}
		switch key {
		case "strategy":
			r.Strategy = value
		case "budget":
			r.Budget = size
		case "activation":
			r.ActivationBudget = size
		case "overhead":
			r.MaxOverhead = n / 100
		case "level":
			r.Level = int(n)
		case "again":
			r.Again = strings.Split(value, ",")
		case "cluster":
			id, count, _ := strings.Cut(value, ":")
			c, err := strconv.Atoi(count)
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			r.Clusters = append(r.Clusters, cluster.Request{ID: id, Type: 1, Count: c})
		default:
			r.Dims[key] = int64(n)
		}
	}
}

// show prints a plan: figures, then the order with ' at what runs again, then
// the lives as value [first, last) bytes @offset.
func show(p *planner.Plan) string {
	var sb strings.Builder
	b, r := p.Baseline, p.Result
	fmt.Fprintf(&sb, "peak %d = %s at %s (kept all: %d at %s, floor %d at %s)\n", r.Peak, r.PeakFormula, r.PeakNode, b.Peak, b.PeakNode, p.Floor.Peak, p.Floor.Node)
	fmt.Fprintf(&sb, "arena %d, stashed %d (kept all: %d, %d), total %d\n", p.Arena, r.Stashed, b.Arena, b.Stashed, p.Memory.Total)
	if r.Again > 0 {
		fmt.Fprintf(&sb, "extra %d flops, %.1f%%, bound %.1f%%\n", r.ExtraFlops, 100*r.Overhead, 100*p.Bound.Overhead)
	}
	for _, c := range p.Clusters {
		fmt.Fprintf(&sb, "cluster %s %d of %d, %d bytes\n", c.ID, c.Applied, c.Freq, c.Bytes)
	}
	sb.WriteString("order")
	for _, s := range p.Steps {
		sb.WriteString(" " + p.Graph.Nodes[s.Node].Name)
		if s.Again {
			sb.WriteString("'")
		}
	}
	sb.WriteString("\n")
	for _, l := range p.Stretches() {
		fmt.Fprintf(&sb, "%s [%d, %d) %d @%d\n", l.Name, l.First, l.Last, l.Bytes, l.Offset)
	}
	for _, w := range p.Warnings {
		sb.WriteString("warning: " + w + "\n")
	}
	return sb.String()
}
