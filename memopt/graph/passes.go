package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/memopt/stop"
)

// passes is how a graph is cleaned up, in running order. Each leaves a graph
// that Check passes, computes the same and has the same results by name.
var passes = []cleanup{
	{"dead", deadNodes, "what nobody needs is not computed"},
	{"shapes", foldShapes, "chains that only compute shapes are formulas"},
	{"no-ops", noOps, "an output that is the input needs no node"},
	{"unfold", unfold, "an operator that hides what a plan would keep is its pieces"},
	{"simplify", simplify, "pairs of casts and of views are one or none"},
	{"constants", foldConstants, "what depends on constants alone is computed once, if bytes do not grow"},
	{"common", common, "what is computed twice alike is computed once"},
	{"fuse", fuse, "an operator in pieces is one node, whose gradient keeps less"},
}

// passOrder is what must stand before what, and why.
var passOrder = [][3]string{
	{"dead", "no-ops", "an output that nobody reads is left out, and only then is the rest of a node a no-op"},
	{"dead", "fuse", "a dead reader is a reader"},
	{"shapes", "constants", "a shape that is a formula has no numbers yet"},
	{"no-ops", "common", "the same behind an Identity looks like another"},
	{"no-ops", "fuse", "an Identity between two pieces hides one from the other"},
	{"simplify", "fuse", "so does a pair of casts"},
	{"unfold", "fuse", "what was hidden may be a piece of another"},
	{"constants", "common", "folded constants may be equal"},
	{"constants", "fuse", "the factor of a scale may be computed, as the root of another"},
	{"common", "fuse", "exporters write x - mean twice; a piece has one maker"},
}

type cleanup struct {
	name string
	run  func(*Graph, CleanOptions) map[string]int // operators of new nodes
	why  string
}

// CleanOptions says what Clean may do.
type CleanOptions struct {
	// Fuse picks the operators that may stand for pieces; nil fuses nothing,
	// and then the graph gives the same bits as before.
	Fuse func(*Op) bool
	// Unfold says that there will be a backward pass: see Op.Unfold.
	Unfold bool
	// Cleaned says that the graph was cleaned before, with other operators to fuse: Clean
	// begins with fusing, and is done if that finds nothing.
	Cleaned bool
	// Context ends Clean, which polls it as package stop says; nil is none.
	Context context.Context
	// After is called behind every pass: tests look at the graph there.
	After func(pass string)
}

// Report is what Clean did.
type Report struct {
	Before, After int // nodes
	Passes        []PassReport
}

// PassReport is one pass in all rounds.
type PassReport struct {
	Name, Why string
	Gone      int    // how many nodes there are less
	Made      []Made // by operator
}

// Made counts new nodes of an operator.
type Made struct {
	Op    string
	Count int
}

func init() {
	if err := checkOrder(passes, passOrder); err != nil {
		panic(err)
	}
}

// checkOrder holds the table against what its order must be.
func checkOrder(passes []cleanup, order [][3]string) error {
	at := map[string]int{}
	for i, p := range passes {
		if _, twice := at[p.name]; twice {
			return fmt.Errorf("two passes are named %q", p.name)
		}
		at[p.name] = i
	}
	for _, o := range order {
		first, ok1 := at[o[0]]
		second, ok2 := at[o[1]]
		switch {
		case !ok1 || !ok2:
			return fmt.Errorf("pass order names %q and %q, which are not both passes", o[0], o[1])
		case first >= second:
			return fmt.Errorf("pass %q must run before %q: %s", o[0], o[1], o[2])
		}
	}
	return nil
}

// Clean runs the passes, round after round until none finds anything. Names of
// inputs, results and parameters stay.
func (g *Graph) Clean(o CleanOptions) Report {
	r := Report{Before: len(g.Nodes)}
	made := make([]map[string]int, len(passes))
	for i, p := range passes {
		r.Passes = append(r.Passes, PassReport{Name: p.name, Why: p.why})
		made[i] = map[string]int{}
	}
	first := 0
	if o.Cleaned {
		first = slices.IndexFunc(passes, func(p cleanup) bool { return p.name == "fuse" })
	}
	for done := false; !done; first = 0 {
		done = true
		for i, p := range passes {
			if i < first {
				continue
			}
			stop.Poll(o.Context)
			before := len(g.Nodes)
			for op, k := range p.run(g, o) {
				made[i][op] += k
				done = false
			}
			if len(g.Nodes) != before {
				done = false
			}
			r.Passes[i].Gone += before - len(g.Nodes)
			if o.After != nil {
				o.After(p.name)
			}
		}
	}
	for i := range r.Passes {
		r.Passes[i].Made = inOrder(made[i])
	}
	r.After = len(g.Nodes)
	return r
}

// Then is what was done where the graph was cleaned once more.
func (r Report) Then(more Report) Report {
	r.Passes, r.After = slices.Clone(r.Passes), more.After
	for i, p := range more.Passes {
		made := map[string]int{}
		for _, m := range slices.Concat(r.Passes[i].Made, p.Made) {
			made[m.Op] += m.Count
		}
		r.Passes[i].Gone += p.Gone
		r.Passes[i].Made = inOrder(made)
	}
	return r
}

func inOrder(made map[string]int) (all []Made) {
	for _, op := range slices.Sorted(maps.Keys(made)) {
		all = append(all, Made{op, made[op]})
	}
	return all
}

// String is a table of the passes that did something.
func (r Report) String() string {
	if r.Passes == nil {
		return "no pass has run, the graph is as it was read\n"
	}
	var sb strings.Builder
	for _, p := range r.Passes {
		if p.Gone == 0 && len(p.Made) == 0 {
			continue
		}
		fmt.Fprintf(&sb, "%-10s%+6d nodes  %s\n", p.Name, -p.Gone, p.Why)
		for _, m := range p.Made {
			fmt.Fprintf(&sb, "%24s%d × %s\n", "", m.Count, m.Op)
		}
	}
	fmt.Fprintf(&sb, "%-10s%6d nodes, now %d\n", "all", r.Before, r.After)
	return sb.String()
}

func deadNodes(g *Graph, _ CleanOptions) map[string]int {
	g.Prune()
	return nil
}

func foldShapes(g *Graph, _ CleanOptions) map[string]int {
	g.FoldInts()
	return nil
}
