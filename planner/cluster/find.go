package cluster

import (
	"context"
	"slices"

	"memopt/memopt/graph"
)

// Rules say how a program is analysed.
type Rules struct {
	// ProbeLevel says which operators of ONNX Runtime's table may run again: 0
	// leaves out products, normalizations and softmax.
	ProbeLevel int
	// Boundary keeps what crosses from layer to layer.
	Boundary bool
	// Compat is the release of ONNX Runtime to agree with, defects and all:
	// "1.19", or "" for the mended rules.
	Compat string
	// Library says which operators beyond the table may run again. The mended
	// rules heed it; nil adds none.
	Library *graph.Library
	// Value, if set, knows values better than the outline does, by name. The
	// mended rules heed it.
	Value func(name string) (graph.OutlineValue, bool)
	// Context ends the analysis, which polls it as package stop says; nil is none.
	Context context.Context
}

// compat reports whether ONNX Runtime's own rules hold.
func (r Rules) compat() bool { return r.Compat != "" }

// Analysis is what can be computed again in a training program.
type Analysis struct {
	Outline *graph.Outline
	Rules   Rules
	Order   []int // node indices in execution order
	Yield   int   // the place in Order of the last forward node
	// Boundaries lists the nodes that read what is kept from layer to layer
	// first, in execution order; Kept names those values.
	Boundaries []int
	Kept       []string
	Plans      []NodePlan // in execution order of their entries
	// Dropped are plans that ONNX Runtime has and the mended rules leave out.
	Dropped []Dropped
	// Warnings are what upstream says in a log.
	Warnings []string

	wiring    *wiring
	inferred  map[string]graph.OutlineValue
	sizes     sizes
	ids       map[string]string // every ID, so that each is there once
	canonical map[*Option]string
	walk      *walk
}

// Dropped is a plan that is worth nothing.
type Dropped struct{ ID, Why string }

// NodePlan is one node whose kept outputs can be made again.
type NodePlan struct {
	Entry   int
	Options []Option // exclusive; making everything again comes first
}

// The types of options.
const (
	Full       = 1 // make all of it again
	Compromise = 2 // make it again from something smaller that is kept instead
)

// Option is one way of making a node's kept outputs again.
type Option struct {
	Type    int
	Nodes   []int           // node indices in execution order; the entry among them
	Outputs []StashedOutput // what need not be kept
	Ratio   float64         // share of Outputs that is saved: 1, or less under a compromise
	// Views are nodes outside that only show what the option makes again, and
	// that the backward pass reads too: they cost nothing and go with it.
	Views []int
	// Keeps names what the backward pass did not need and the option does: it
	// has to be kept instead, and no saving says so.
	Keeps []string
	// Spelling is ONNX Runtime's ID for it, where the mended rules give another.
	Spelling string
	// Batch reports whether what is saved depends on what a step is fed; what is
	// made of weights alone is there for every batch size.
	Batch bool
	// Beyond reports of a trainer's program whether a node is not in ONNX
	// Runtime's table.
	Beyond bool

	save, of int64 // Ratio as a fraction
}

// StashedOutput is an output that the backward pass reads.
type StashedOutput struct {
	Index int    // which output of the entry
	Name  string // its name
	Shape string // ((batch)*(64)), or unknown
	Type  graph.DType
	// Shows reports whether the output lies in a buffer of another node. Reused
	// is that node if it is not in the option, or −1: making the output again
	// saves nothing unless that node's buffer goes too.
	Shows  bool
	Reused int

	bytes graph.Dim
}

// Analyse finds what can be computed again in a program of a trainer: one with
// a YieldOp between its passes. Without one there is nothing.
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

// passes says what of a program is which.
type passes struct {
	wiring           *wiring
	order            []int
	yield            int     // the last of the forward pass, −1 if there is but one pass
	returned         []int32 // numbers of values
	weights, trained []bool  // by value; nil: to be guessed
	known            bool    // everything is known of every value
}

func analyse(o *graph.Outline, r Rules, b passes) (*Analysis, error) {
	a := &Analysis{Outline: o, Rules: r, Order: b.order, Yield: b.yield, wiring: b.wiring,
		inferred: map[string]graph.OutlineValue{}, sizes: sizes{}, ids: map[string]string{}, canonical: map[*Option]string{}}
	// Sizes of a file may be beyond all bounds.
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

// Makes reports whether a node makes a value of this name.
func (a *Analysis) Makes(name string) bool {
	_, made := a.wiring.maker(name)
	return made
}

// ID spells an option as settings do: its operators in execution order, each
// followed by +.
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
