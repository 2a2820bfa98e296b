package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

// Portable reports whether other runtimes have the operator: it is in ONNX, or in ONNX Runtime
// for CPUs.
func Portable(op *graph.Op) bool { return !Ours(op) && !op.OnlyCUDA }

// Ours reports whether the operator exists only in memopt.
func Ours(op *graph.Op) bool { return op.Domain == own }

// Processor names the instruction set that float32 arithmetic uses on this machine.
func Processor() string { return f32.Levels()[0] }

// Workspace is the memory in bytes that operators of this process use outside of plans: packed
// blocks of matrix products, which all devices share.
func Workspace() int64 { return f32.WorkspaceBytes() }
