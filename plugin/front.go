package plugin

import "context"

// Front is what the service serves. Errors have the exit codes of the command line: `ExitCode()
// int` of 1 means that the request cannot be met, 2 that the request or its input is wrong. An
// error with `Refusal() string` has JSON of format memopt.refusal/1 for hosts that react to it.
type Front interface {
	Info(ctx context.Context) (Info, error)
	Plan(ctx context.Context, r Question) (Answer, error)
	Frontier(ctx context.Context, r Question) (Answer, error)
	MaxBatch(ctx context.Context, r Question) (Answer, error)
	Explain(ctx context.Context, r Question) (Answer, error)
	Check(ctx context.Context, r Question) (Answer, error)
	Quantize(ctx context.Context, r Question) (Answer, error)
	Load(ctx context.Context, r Question) (Answer, error)
	Open(ctx context.Context, r OpenRequest) (Opened, error)
	// Stats reports the memory of the process and of its sessions.
	Stats(ctx context.Context) (Answer, error)
}

// Info says what this binary is; the service adds its process id and protocol.
type Info struct {
	Version  string   // semantic version
	Features []string // what this binary can do beyond the first version of the protocol
	Devices  []Device // where a plan could run, best first
}

// Device is one place where a plan could run.
type Device struct {
	Name   string
	Kind   string // "cpu", "vulkan"
	Memory int64  // bytes; 0: unknown
}

// Caller is the trainer's environment at the time of a call.
type Caller struct {
	// Environment is its MEMOPT_* and ORTMODULE_* variables, used instead of this process's, which
	// may be outdated; nil: the host sent none.
	Environment map[string]string
	// Folder is its current folder, where relative paths begin, which may differ from this
	// process's; "": the host sent none.
	Folder string
	// Progress receives the progress of the call.
	Progress Progress `json:"-"`
}

// Question is the request of a command such as plan or explain; the zero value of a field is
// "not given".
type Question struct {
	Model    string            // path; of Explain: of a plan file
	Settings map[string]string // by name, as text: those that the command has flags for
	Dim      string            // of MaxBatch: the dim to enlarge
	Node     string            // of Explain: the node to explain, instead of all
	SVG      string            // file to draw to: of Plan memory over the step, of Frontier the curve
	SaveTo   string            // of Plan and MaxBatch: plan file to write; of Quantize: the model
	HTML     string            // of Plan and Explain: page to write
	Emit     string            // of Plan: rewritten ONNX graph to write
	Plan     string            // of Check: plan file to check against the model
	Show     []string          // of Plan: stages to print before the table
	Caller
}

// Answer is the output of the command.
type Answer struct {
	JSON     string // with --format json; of Plan: the plan file, format memopt.plan/1
	Text     string
	Warnings []string
}
