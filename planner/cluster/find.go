package cluster

import (
	"memopt/memopt/graph"
)

// Rules say how a program is analysed.
type Rules struct {
	// ProbeLevel says which operators may run again: 0 or 1. Only ONNX
	// Runtime's own rules read it.
	ProbeLevel int
	// Boundary keeps what crosses from layer to layer.
	Boundary bool
	// Compat is the release of ONNX Runtime to agree with, defects and all:
	// "1.19", or "" for the mended rules.
	Compat string
}

// Analysis is what can be computed again in a training program.
type Analysis struct {
	Outline *graph.Outline
	Rules   Rules
	Order   []int // node indices in execution order
	Yield   int   // the place in Order of the last forward node
	// Boundaries lists the nodes whose input 0 is kept from layer to layer,
	// in execution order.
	Boundaries []int
	Plans      []NodePlan // in execution order of their entries
}

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
}

// StashedOutput is an output that the backward pass reads.
type StashedOutput struct {
	Index int    // which output of the entry
	Name  string // its name
	Shape string // ((batch)*(64)), or unknown
	Type  graph.DType
	// Reused is the node outside the option that makes the buffer which this
	// output only shows, or −1. Making the output again saves nothing unless
	// that node's buffer goes too.
	Reused int
}

// Part is a plan that a key names.
type Part struct {
	ID   string
	Type int
}

// Member is one place of a key: the options that are on together, the entry's
// own first.
type Member struct {
	Plan    int // in Analysis.Plans
	Option  int // in its Options
	Reusing []Member
}

// Key is a line of the plan table: every place of one plan, or of several that
// must be on together.
type Key struct {
	Parts   []Part   // sorted by text
	Members []Member // in execution order; their number is the frequency
	// Raw is the saving over all places and all outputs as text in the form
	// ((batch)*(64)) * 4 * 1.000000; RawORT counts one output a node, as ONNX
	// Runtime does.
	Raw, RawORT string
}
