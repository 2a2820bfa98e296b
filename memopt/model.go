package memopt

import (
	"context"

	"memopt/autograd"
	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/planner/forms"
)

// Version is that of the program, the service and the Python package.
const Version = "0.1.0"

// Model is a training step that was read from a file, ready to be planned.
type Model struct {
	Path  string
	Graph *graph.Graph // the whole step
	// Outline is the nodes as the file spells them, if it is a trainer's.
	Outline *graph.Outline
	Config  configs.Config
	// LossInput is the input that a loss which was added compares with, as in
	// labels i64[batch]; "" if none was added.
	LossInput string
	// Passes is what was done to the forward graph first.
	Passes graph.Report

	// Profiled is the device whose times plans count in; "" for flops and bytes.
	Profiled string
	bytes    []byte                              // the model itself, where it is no file; Path is then a name and a folder
	given    map[string]*graph.Tensor            // initializers instead of the file's
	held     bool                                // its files may go once they were read: see unchanged
	ctx      context.Context                     // ends whatever is asked of the model
	phases   *Phases                             // that reading it is noted in; nil if it is not
	again    func(autograd.Options) *forms.Steps // derives the step anew; nil where the file has it
	source   *onnx.Source                        // nil if the file has no weights
	initials []initial                           // the float initializers that were read
	selected autograd.Selection                  // of them, by settings
	samples  map[string]string                   // outputs that only a comparison needs, by running statistic
	loss     string                              // the value that is to be lowered; "" is the only scalar
	cleaned  graph.CleanOptions                  // as the forward graph was
	steps    *forms.Steps                        // the step in every form that it may take
	kept     []string                            // values that are kept in less, whatever settings say; nil leaves that to them
	costs    map[string]float64                  // by node
}
