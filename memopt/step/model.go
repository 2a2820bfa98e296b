// Package step has the training step of a model: reads it, derives it in every form, prices it and plans it.
package step

import (
	"context"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/memopt/phases"
	"memopt/planner/forms"
	"memopt/planner/profile"
)

// Version is the version of the program, the service and the Python package.
const Version = "0.1.0"

// Model is a training step read from a file, ready to be planned.
type Model struct {
	Path  string
	Graph *graph.Graph // the whole step
	// Outline has the nodes as a trainer's file spells them; nil for other files.
	Outline *graph.Outline
	Config  configs.Config
	// LossInput is the input that an added loss compares with, such as labels i64[batch]; "" if no loss was added.
	LossInput string
	// Passes reports the passes that ran on the forward graph.
	Passes graph.Report

	// Profiled is the device whose measured times are the costs of plans; "" if costs are flops and bytes.
	Profiled string
	// Priced is the profile whose nanoseconds are the costs of plans; nil if costs are flops and bytes.
	Priced *profile.Profile
	// pricedAgain is the same where PyTorch's own checkpoints run modules again, or nil: as Priced has it.
	pricedAgain *profile.Profile
	Bytes       []byte                              // the model itself, if not a file; Path is then its name and folder
	Given       map[string]*graph.Tensor            // initializers that replace the file's
	Held        bool                                // Held open: its files may be removed after reading; see unchanged
	Ctx         context.Context                     // ends all work on the model
	Phases      *phases.Record                      // records the phases of reading; nil records none
	again       func(autograd.Options) *forms.Steps // derives the step anew; nil if the file contains it
	Source      *onnx.Source                        // nil if the file has no weights
	initials    []initial                           // the file's float initializers
	selected    autograd.Selection                  // the initializers that the settings select for training
	Samples     map[string]string                   // extra outputs for comparisons, by running statistic
	Loss        string                              // name of the loss; "" means the only scalar output
	cleaned     graph.CleanOptions                  // options of the passes that ran on the forward graph
	Steps       *forms.Steps                        // the step in every form that it may take
	Kept        []string                            // values to store in fewer bytes; nil lets the settings decide
	Costs       map[string]float64                  // seconds per unit of plain cost, by node
}
