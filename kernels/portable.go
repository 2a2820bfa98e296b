package kernels

import (
	"memopt/kernels/internal/f32"
	"memopt/memopt/graph"
)

// Portable reports whether other runtimes have the operator: ONNX does, or
// ONNX Runtime on a CPU. A model for them may be made of such operators only.
func Portable(op *graph.Op) bool { return !Ours(op) && !op.OnlyCUDA }

// Ours reports whether only memopt has the operator.
func Ours(op *graph.Op) bool { return op.Domain == own }

// Processor names the instructions that float32 arithmetic uses on this machine.
func Processor() string { return f32.Levels()[0] }

// Workspace is the bytes that operators of this process work in beside what
// plans place: packed blocks of products, which all devices share.
func Workspace() int64 { return f32.WorkspaceBytes() }
