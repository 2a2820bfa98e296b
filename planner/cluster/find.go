package cluster

import (
	"context"
	"slices"

	"memopt/internal/graph"
)

// Rules are the options of an analysis.
type Rules struct {
	// ProbeLevel selects the operators of ONNX Runtime's table that may run again: 0 leaves out
	// matrix products, normalizations and softmax.
	ProbeLevel int
	// Boundary: values that cross from layer to layer are kept.
	Boundary bool
	// Compat is the release of ONNX Runtime to agree with, including its defects: "1.19", or "" for
	// the corrected rules.
	Compat string
	// Library says which operators beyond the table may run again; nil: none. Only the corrected
	// rules use it.
	Library *graph.Library
	// Value, if set, returns types and shapes that the outline lacks. Only the corrected rules use
	// it.
	Value func(name string) (graph.OutlineValue, bool)
	// Context cancels the analysis (package stop); nil: never.
	Context context.Context
}

// compat reports whether ONNX Runtime's own rules apply.
func (r Rules) compat() bool { return r.Compat != "" }

// Analysis is the clusters of a training program.
type Analysis struct {
	Outline *graph.Outline
	Rules   Rules
	Order   []int // node indices in execution order
	Yield   int   // index in Order of the last forward node
	// Kept names the values that cross from layer to layer; Boundaries lists the first reader of
	// each, in execution order.
	Boundaries []int
	Kept       []string
	Plans      []NodePlan // in execution order of their entries
	// Dropped lists plans that ONNX Runtime has and the corrected rules leave out.
	Dropped []Dropped
	// Warnings are messages that upstream logs.
	Warnings []string

	wiring    *wiring
	inferred  map[string]graph.OutlineValue
	sizes     sizes
	ids       map[string]string // interns IDs
	canonical map[*Option]string
	walk      *walk
}

// Dropped is a plan that is not offered.
type Dropped struct{ ID, Why string }

// NodePlan is a node whose stashed outputs can be recomputed.
type NodePlan struct {
	Entry   int
	Options []Option // alternatives, Full first
}

// The types of options.
const (
	Full       = 1 // recompute everything
	Compromise = 2 // recompute from a smaller value that is kept instead
)

// Option is one way of recomputing a node's stashed outputs.
type Option struct {
	Type    int
	Nodes   []int           // node indices in execution order, including the entry
	Outputs []StashedOutput // need not be kept
	Ratio   float64         // share of the bytes of Outputs that is saved: 1, or less for a compromise
	// Views are nodes outside Nodes that are views of recomputed values and that the backward pass
	// reads, too: they cost nothing and are recomputed with the option.
	Views []int
	// Keeps names values that the option reads and the backward pass does not: they have to be
	// kept, which is not subtracted from savings.
	Keeps []string
	// Spelling is ONNX Runtime's ID, if the corrected rules have another one.
	Spelling string
	// Batch reports whether the saved values depend on inputs of the step; values made of weights
	// alone do not grow with the batch.
	Batch bool
	// Beyond reports whether, in a trainer's program, a node is not in ONNX Runtime's table.
	Beyond bool

	save, of int64 // Ratio as a fraction
}

// StashedOutput is an output that the backward pass reads.
type StashedOutput struct {
	Index int // output number of the entry
	Name  string
	Shape string // ((batch)*(64)), or unknown
	Type  graph.DType
	// Shows reports whether the output is a view of another node's buffer. Reused is that node if
	// it is outside the option, else −1: recomputing the output then saves nothing unless that
	// node's buffer is freed, too.
	Shows  bool
	Reused int

	bytes graph.Dim
}

// Analyse finds the clusters of a trainer's program, which has a YieldOp between its passes.
// Without one there are none.
func Analyse(o *graph.Outline, r Rules) (*Analysis, error) {
	at, err := borderOf(o)
	if err != nil {
		return nil, err
	}
	order, err := MemoryEfficientOrder(o)
	if err != nil {
		return nil, err
	}
	w, err := wire(o)
	if err != nil {
		return nil, err
	}
	b := passes{wiring: w, order: order, yield: slices.Index(order, at)}
	if at >= 0 {
		b.returned = w.inputs[at]
	}
	return analyse(o, r, b)
}

// passes divides a program into its passes.
type passes struct {
	wiring           *wiring
	order            []int
	yield            int     // index of the last forward node, −1 if there is one pass only
	returned         []int32 // value numbers
	weights, trained []bool  // by value; nil: guess
	known            bool    // types and shapes of all values are known
}

func analyse(o *graph.Outline, r Rules, b passes) (*Analysis, error) {
	a := &Analysis{Outline: o, Rules: r, Order: b.order, Yield: b.yield, wiring: b.wiring,
		inferred: map[string]graph.OutlineValue{}, sizes: sizes{}, ids: map[string]string{}, canonical: map[*Option]string{}}
	// Sizes in a file may overflow, which panics.
	if err := graph.Try(func() {
		if !b.known {
			a.infer()
		}
		newProber(a, b).run()
	}); err != nil {
		return nil, err
	}
	return a, nil
}

// Makes reports whether a node computes a value of this name.
func (a *Analysis) Makes(name string) bool {
	_, made := a.wiring.maker(name)
	return made
}

// ID spells an option as settings do: its operators in execution order, each followed by +.
func (a *Analysis) ID(o *Option) string { return a.idOf(o.Nodes) }

func (a *Analysis) idOf(nodes []int) string {
	var room [128]byte
	text := room[:0]
	for _, i := range nodes {
		text = append(append(text, a.Outline.Nodes[i].Op...), '+')
	}
	id, known := a.ids[string(text)]
	if !known {
		id = string(text)
		a.ids[id] = id
	}
	return id
}
