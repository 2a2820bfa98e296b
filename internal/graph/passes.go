package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/internal/stop"
)

// passes lists the passes of Clean in running order. Each leaves a graph that passes Check,
// computes the same, and has results of the same names.
var passes = []cleanup{
	{"dead", deadNodes, "removes nodes whose results are not used"},
	{"shapes", foldShapes, "replaces computations of shapes by formulas"},
	{"no-ops", noOps, "removes nodes whose output is their input"},
	{"unfold", unfold, "splits nodes with an internal value that is cheaper to keep than their inputs"},
	{"simplify", simplify, "reduces pairs of casts and of views"},
	{"constants", foldConstants, "folds constants, if that takes no more bytes"},
	{"common", common, "merges nodes that compute the same"},
	{"fuse", fuse, "fuses nodes into one whose gradient keeps less"},
}

// passOrder lists which pass must run before which, and why.
var passOrder = [][3]string{
	{"dead", "no-ops", "a node may be a no-op only after an unused output is omitted"},
	{"dead", "fuse", "a dead reader prevents a match"},
	{"shapes", "constants", "shapes that are formulas have no numbers to fold"},
	{"no-ops", "common", "equal nodes may differ by an Identity before an input"},
	{"no-ops", "fuse", "an Identity between two pieces prevents a match"},
	{"simplify", "fuse", "so does a pair of casts"},
	{"unfold", "fuse", "the parts may be pieces of a pattern"},
	{"constants", "common", "folded constants may be equal"},
	{"constants", "fuse", "the factor of a scale may be computed, as the square root of a constant"},
	{"common", "fuse", "exporters compute x - mean twice, but a pattern has it once"},
}

type cleanup struct {
	name string
	run  func(*Graph, CleanOptions) map[string]int // counts operators of new nodes
	why  string
}

// CleanOptions says what Clean may do.
type CleanOptions struct {
	// Fuse selects the operators that may replace patterns; nil fuses nothing, so that
	// results keep their bits.
	Fuse func(*Op) bool
	// Fused decides whether an operator replaces the pattern that it matches at a node; nil: it does.
	Fused func(*Op, *Node) bool
	// Unfold says that there will be a backward pass: see Op.Unfold.
	Unfold bool
	// Cleaned says that the graph was cleaned before with other operators to fuse: Clean
	// starts with fusing, and returns if that finds nothing.
	Cleaned bool
	// Context cancels Clean; see package stop. nil is none.
	Context context.Context
	// After is called after every pass, for tests.
	After func(pass string)
}

// Report is what Clean did.
type Report struct {
	Before, After int // nodes
	Passes        []PassReport
}

// PassReport sums up a pass over all rounds.
type PassReport struct {
	Name, Why string
	Gone      int    // net number of nodes removed
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

// checkOrder checks passes against passOrder.
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

// Clean runs the passes in rounds until none finds anything. Names of
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

// Then adds the report of another Clean of the same graph.
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

// String is a table of the passes that changed the graph.
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
