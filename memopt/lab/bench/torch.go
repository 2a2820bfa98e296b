package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// TorchDoc describes PyTorch's bench.
const TorchDoc = "training steps of PyTorch modules under budgets, beside checkpointing by hand and PyTorch's knob; groups are models: all but the large ones unless --only names them"

// TorchOptions select what is measured.
type TorchOptions struct {
	Only     []string // models; none: all but the large ones
	Quick    bool     // few budgets, few rounds
	Python   string   // interpreter with PyTorch and memopt's package
	Progress func(what string)
}

// torchModels are the models of torch/families.py and torch/speed.py, the quick ones first; loops is training loops beside eager mode.
var torchModels = []struct {
	name  string
	large bool
}{
	{"tiny", false}, {"llama-6x64", false}, {"modules-300", false}, {"vit", false}, {"whisper", false}, {"clip", false}, {"llama", false}, {"gpt2", false}, {"qwen3", false}, {"bert", false},
	{"t5", false}, {"convnext", false}, {"efficientnetv2", false}, {"mixtral", false}, {"unet", false}, {"resnet18", false}, {"resnet26", false}, {"gpt-moved", false}, {"gpt-48L", false},
	{"resnet18-112", true}, {"bert-6L", true}, {"llama-8L", true}, {"gpt-6L", true}, {"loops", true},
}

// TorchModels lists the models for Only.
func TorchModels() (names []string) {
	for _, m := range torchModels {
		names = append(names, m.name)
	}
	return names
}

// TorchReport is the figures of one run. The clock is CPU time of one thread.
type TorchReport struct {
	PyTorch string       `json:"pytorch"` // its version
	Models  []TorchModel `json:"models"`
}

// TorchModel is one module's step, run in every way, first in eager mode.
type TorchModel struct {
	Model  string     `json:"model"`
	Large  bool       `json:"large,omitempty"`
	Blocks int        `json:"blocks,omitempty"` // number of blocks, for checkpointing by hand
	Error  string     `json:"error,omitempty"`  // why the model has no further rows
	Rows   []TorchRow `json:"rows"`
}

// TorchRow is one way of running the step. Bytes are the peak growth over forward and backward,
// including gradients.
type TorchRow struct {
	Kind          string   `json:"kind"` // eager, checkpoint, knob, memopt, memopt in Python (replayed without the native module), memopt compiled
	Name          string   `json:"name"`
	Asked         int64    `json:"asked,omitempty"`
	Promised      int64    `json:"promised,omitempty"`
	Measured      int64    `json:"measured,omitempty"`
	Flops         int64    `json:"flops,omitempty"`           // of eager mode
	ExtraPromised float64  `json:"extra_promised"`            // FLOPs, as a share of eager mode's
	Extra         float64  `json:"extra"`                     // counted
	Overhead      float64  `json:"overhead,omitempty"`        // extra cost that the planner expects
	Timed         bool     `json:"timed,omitempty"`           // that is time
	CPUMS         float64  `json:"cpu_ms,omitempty"`          // the quickest step
	Ratio         float64  `json:"ratio,omitempty"`           // to eager mode's
	Bits          *bool    `json:"bits,omitempty"`            // loss, gradients, buffers and random state are eager mode's
	Wrong         []string `json:"wrong,omitempty"`           // what is not
	ErrorOfValues float64  `json:"error_of_values,omitempty"` // the largest, of loss and gradients, to the largest of the tensor
	FirstCPUMS    float64  `json:"first_cpu_ms,omitempty"`    // of a first step, that is recorded and planned
	FirstMS       float64  `json:"first_ms,omitempty"`
	BesideMS      float64  `json:"beside_ms,omitempty"` // CPU time of that beside a step in eager mode
	Error         string   `json:"error,omitempty"`
	Told          string   `json:"told,omitempty"` // a warning
	// Checkpoint and Knob name the fastest rivals of their kind that meet the budget and compute
	// the right gradients.
	Checkpoint string     `json:"checkpoint,omitempty"`
	Knob       string     `json:"knob,omitempty"`
	Bars       []TorchBar `json:"bars,omitempty"`
}

// TorchBar is a promise, and whether it was kept.
type TorchBar struct {
	Name string `json:"name"`
	Met  bool   `json:"met"`
	Says string `json:"says,omitempty"` // by how much not
}

// NoTorchError says why nothing can be measured, and what to install.
type NoTorchError struct{ python, absent string }

func (e *NoTorchError) Error() string {
	if e.absent == "memopt" {
		return fmt.Sprintf("%s does not have memopt's package: %s -m pip install plugin/python, in memopt's sources", e.python, e.python)
	}
	return fmt.Sprintf("%s does not have %s: %s -m pip install torch torchvision transformers diffusers", e.python, e.absent, e.python)
}

// ExitCode is that of a request that cannot be met.
func (e *NoTorchError) ExitCode() int { return 1 }

// Torch runs the bench, each model in its own process. A model that fails is reported in its place.
func Torch(o TorchOptions) (*TorchReport, error) {
	for _, name := range o.Only {
		if !slices.Contains(TorchModels(), name) {
			return nil, fmt.Errorf("torch has no model %q; there are %s", name, strings.Join(TorchModels(), ", "))
		}
	}
	script, err := newTorchScript(o.Python)
	if err != nil {
		return nil, err
	}
	defer script.close()
	r := &TorchReport{Models: []TorchModel{}}
	for _, m := range torchModels {
		if len(o.Only) == 0 && m.large || len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(m.name)
		}
		found, err := script.run(m.name, o.Quick, o.Progress)
		var none *NoTorchError
		if errors.As(err, &none) {
			return nil, err
		}
		if err != nil {
			found = TorchModel{Model: m.name, Error: err.Error(), Rows: []TorchRow{}}
		}
		found.judge()
		r.Models = append(r.Models, found)
	}
	r.PyTorch = script.version
	return r, nil
}
