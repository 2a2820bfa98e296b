// Package lower is what operators share that turns their nodes into launches: dispatches of Vulkan kernels, as data.
//
//	shader.go                        kernels, buffers and constants of dispatches
//	pointwise.go, elementwise.go     expressions of elementwise operators, compiled by signature
//	product….go, cooperative.go      matrix products: tiles, their choice, and products in pieces
//	conv….go, implicit.go, depthwise.go, spread.go  convolutions
//	reduce.go, move.go, known.go     reductions, copies of boxes, numbers known while planning
//	piece.go, addressed.go           operands beyond the range of a descriptor
//	team.go                          rows that teams of invocations work on
//	halves.go                        16-bit floats
//
// The shaders stand beside them: *.comp in GLSL, and in spv what they compile to. A lowering that one family of
// operators has for itself stands with the family, in package kernels, which imports this one. No file here
// knows an operator by name.
package lower

import (
	"embed"
	"math"
	"regexp"
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// compiled holds the SPIR-V of the shaders. TestShaders of package kernels detects stale ones by source hash, even where
// there is no compiler.
//
//go:embed spv
var compiled embed.FS

// sources is the GLSL: it is parsed for the types of buffers and included in expressions.
//
//go:embed *.comp *.glsl
var sources embed.FS

// Source is what a shader is compiled from.
type Source struct {
	Kernel *graph.Kernel
	File   string
	Args   []string
	Edit   func(text string) string // applied to the file's text; may be nil
	// Library: kernels are assembled from its functions, so spirv-opt must not inline them.
	Library bool
}

var declared []Source

// Shaders lists the sources of all declared kernels.
func Shaders() []Source { return declared }

// Shader declares a kernel: a file and arguments of the compiler.
func Shader(name, file string, args ...string) *graph.Kernel {
	return editedShader(name, file, withIncluded, args...)
}

var includeLine = regexp.MustCompile(`(?m)^//(\w+\.glsl)\n`)

// withIncluded puts files in the place of the comments that name them.
func withIncluded(text string) string {
	return includeLine.ReplaceAllStringFunc(text, func(line string) string {
		file, err := sources.ReadFile(includeLine.FindStringSubmatch(line)[1])
		if err != nil {
			panic(err)
		}
		return string(file)
	})
}

func editedShader(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	k := &graph.Kernel{Name: name, Code: sync.OnceValue(func() []byte {
		// A newly declared shader has no code until go generate has compiled it.
		code, _ := compiled.ReadFile("spv/" + name + ".spv")
		return code
	})}
	declared = append(declared, Source{Kernel: k, File: file, Args: args, Edit: edit})
	return k
}

// sourceOf is the source of a declared kernel.
func sourceOf(k *graph.Kernel) Source {
	return declared[slices.IndexFunc(declared, func(s Source) bool { return s.Kernel == k })]
}

// form declares another form of a kernel, with its text edited further.
func (s Source) form(suffix string, edit func(text string) string) *graph.Kernel {
	return editedShader(s.Kernel.Name+suffix, s.File, func(text string) string {
		if s.Edit != nil {
			text = s.Edit(text)
		}
		return edit(text)
	}, s.Args...)
}

// ShaderLibrary declares a module of functions that kernels are assembled from.
func ShaderLibrary(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	k := editedShader(name, file, edit, args...)
	declared[len(declared)-1].Library = true
	return k
}

// Joined gives a kernel a form that runs many dispatches as one.
func Joined(k *graph.Kernel) *graph.Kernel {
	src := sourceOf(k)
	k.Joined = Shader(k.Name+"-joined", src.File, append(slices.Clone(src.Args), "-DJOINED")...)
	return k
}

// Buffers of dispatches.

// Writes is output out, for writing.
func Writes(out int) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceOut, Index: out, Writes: true}
}

// Reads is input in.
func Reads(in int) graph.Buffer { return graph.Buffer{Place: graph.PlaceIn, Index: in} }

// Rereads is an output that an earlier dispatch of the node wrote.
func Rereads(out int) graph.Buffer { return graph.Buffer{Place: graph.PlaceOut, Index: out} }

// Unused fills a binding that a dispatch does not use; written must be true if the shader does
// not declare it readonly.
func Unused(written bool) graph.Buffer { return graph.Buffer{Place: graph.PlaceNone, Writes: written} }

// Unwritten is buffer b for reading.
func Unwritten(b graph.Buffer) graph.Buffer {
	b.Writes = false
	return b
}

// Scratch is a part of the work space.
func Scratch(at, bytes int64, written bool) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceScratch, At: at, Bytes: bytes, Writes: written}
}

// Bits is a float32 as a word of push constants.
func Bits(x float64) uint32 { return math.Float32bits(float32(x)) }

// OneIf is b as a push constant.
func OneIf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Words converts numbers to push constants; shaders count elements in 32 bits.
func Words[N int | int64](l *graph.Lowering, ns ...N) []uint32 {
	out := make([]uint32, len(ns))
	for i, n := range ns {
		if int64(n) > math.MaxUint32 {
			l.Refuse("%d elements exceed the 32-bit counts of kernels", int64(n))
		}
		out[i] = uint32(n)
	}
	return out
}

// InLine distributes n workgroups over two dims.
func InLine(l *graph.Lowering, n int) [3]int {
	x := min(max(n, 1), l.Limits.Groups[0])
	y := index.CeilDiv(max(n, 1), x)
	if y > l.Limits.Groups[1] {
		l.Refuse("%d workgroups exceed the limit of the device", n)
	}
	return [3]int{x, y, 1}
}

// OnlyTypes refuses a node whose inputs and outputs do not have the listed types; the last type
// of a shorter list applies to the rest.
func OnlyTypes(l *graph.Lowering, in, out []graph.DType) bool {
	ok := func(what string, os []*graph.Operand, types []graph.DType) bool {
		for i, o := range os {
			if o == nil || len(types) == 0 {
				continue
			}
			if want := types[min(i, len(types)-1)]; o.Type != want {
				l.Refuse("%s %d is %s; there is a kernel for %s", what, i, o.Type, want)
				return false
			}
		}
		return true
	}
	return ok("input", l.In, in) && ok("output", l.Out, out)
}

// OnlyF32 refuses a node that is not of 32-bit floats throughout.
func OnlyF32(l *graph.Lowering) bool {
	f := []graph.DType{graph.Float32}
	return OnlyTypes(l, f, f)
}

// In returns input i of a lowering, or nil if it is omitted.
func In(l *graph.Lowering, i int) *graph.Operand {
	if i < len(l.In) {
		return l.In[i]
	}
	return nil
}

// Present is i, or -1 if input i is omitted.
func Present(l *graph.Lowering, i int) int {
	if In(l, i) == nil {
		return -1
	}
	return i
}

// Out returns output i of a lowering, or nil if it is omitted.
func Out(l *graph.Lowering, i int) *graph.Operand {
	if i < len(l.Out) {
		return l.Out[i]
	}
	return nil
}

// WholeWords rounds a size up to words. Kernels that access words may do so: the alignment of
// values in plans leaves room after each.
func WholeWords(bytes int64) int64 { return (bytes + 3) &^ 3 }

// Aligned rounds an offset in work space up to the next that a buffer may begin at.
func Aligned(bytes int64) int64 { return (bytes + 63) &^ 63 }

// BoundOperand is the operand that a buffer belongs to, or nil.
func BoundOperand(l *graph.Lowering, b graph.Buffer) *graph.Operand {
	switch b.Place {
	case graph.PlaceIn:
		return l.In[b.Index]
	case graph.PlaceOut:
		return l.Out[b.Index]
	}
	return nil
}

// MustFit refuses operands of more dims than a kernel takes.
func MustFit(l *graph.Lowering, dims []int, most int) bool {
	if len(dims) > most {
		l.Refuse("the operands have %d dims with different strides; the kernel takes at most %d", len(dims), most)
		return false
	}
	return true
}
