package kernels

import (
	"embed"
	"math"
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// compiled holds the SPIR-V of the shaders, compiled from the .comp files next to the
// operators. TestShaders detects stale ones by source hash, even where there is no compiler.
//
//go:generate go test -run TestShaders -update .
//go:embed spv
var compiled embed.FS

// sources is the GLSL: it is parsed for the types of buffers and included in expressions.
//
//go:embed *.comp *.glsl
var sources embed.FS

// shaderSource is what a shader is compiled from.
type shaderSource struct {
	kernel *graph.Kernel
	file   string
	args   []string
	edit   func(text string) string // applied to the file's text; may be nil
	// library: kernels are assembled from its functions, so spirv-opt must not inline them.
	library bool
}

var shaders []shaderSource

// shader declares a kernel: a file and arguments of the compiler.
func shader(name, file string, args ...string) *graph.Kernel {
	return editedShader(name, file, nil, args...)
}

func editedShader(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	k := &graph.Kernel{Name: name, Code: sync.OnceValue(func() []byte {
		// A newly declared shader has no code until go generate has compiled it.
		code, _ := compiled.ReadFile("spv/" + name + ".spv")
		return code
	})}
	shaders = append(shaders, shaderSource{kernel: k, file: file, args: args, edit: edit})
	return k
}

// sourceOf is the source of a declared kernel.
func sourceOf(k *graph.Kernel) shaderSource {
	return shaders[slices.IndexFunc(shaders, func(s shaderSource) bool { return s.kernel == k })]
}

// form declares another form of a kernel, with its text edited further.
func (s shaderSource) form(suffix string, edit func(text string) string) *graph.Kernel {
	return editedShader(s.kernel.Name+suffix, s.file, func(text string) string {
		if s.edit != nil {
			text = s.edit(text)
		}
		return edit(text)
	}, s.args...)
}

// shaderLibrary declares a module of functions that kernels are assembled from.
func shaderLibrary(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	k := editedShader(name, file, edit, args...)
	shaders[len(shaders)-1].library = true
	return k
}

// joined gives a kernel a form that runs many dispatches as one.
func joined(k *graph.Kernel) *graph.Kernel {
	src := sourceOf(k)
	k.Joined = shader(k.Name+"-joined", src.file, append(slices.Clone(src.args), "-DJOINED")...)
	return k
}

// Buffers of dispatches.

func writes(out int) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceOut, Index: out, Writes: true}
}
func reads(in int) graph.Buffer { return graph.Buffer{Place: graph.PlaceIn, Index: in} }

// rereads is an output that an earlier dispatch of the node wrote.
func rereads(out int) graph.Buffer { return graph.Buffer{Place: graph.PlaceOut, Index: out} }

// unused fills a binding that a dispatch does not use; written must be true if the shader does
// not declare it readonly.
func unused(written bool) graph.Buffer { return graph.Buffer{Place: graph.PlaceNone, Writes: written} }

// unwritten is buffer b for reading.
func unwritten(b graph.Buffer) graph.Buffer {
	b.Writes = false
	return b
}

func scratch(at, bytes int64, written bool) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceScratch, At: at, Bytes: bytes, Writes: written}
}

// bits is a float32 as a word of push constants.
func bits(x float64) uint32 { return math.Float32bits(float32(x)) }

func oneIf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// words converts numbers to push constants; shaders count elements in 32 bits.
func words[N int | int64](l *graph.Lowering, ns ...N) []uint32 {
	out := make([]uint32, len(ns))
	for i, n := range ns {
		if int64(n) > math.MaxUint32 {
			l.Refuse("%d elements exceed the 32-bit counts of kernels", int64(n))
		}
		out[i] = uint32(n)
	}
	return out
}

// inLine distributes n workgroups over two dims.
func inLine(l *graph.Lowering, n int) [3]int {
	x := min(max(n, 1), l.Limits.Groups[0])
	y := index.CeilDiv(max(n, 1), x)
	if y > l.Limits.Groups[1] {
		l.Refuse("%d workgroups exceed the limit of the device", n)
	}
	return [3]int{x, y, 1}
}

// onlyTypes refuses a node whose inputs and outputs do not have the listed types; the last type
// of a shorter list applies to the rest.
func onlyTypes(l *graph.Lowering, in, out []graph.DType) bool {
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

func onlyF32(l *graph.Lowering) bool {
	f := []graph.DType{graph.Float32}
	return onlyTypes(l, f, f)
}

// loweredIn returns input i of a lowering, or nil if it is omitted.
func loweredIn(l *graph.Lowering, i int) *graph.Operand {
	if i < len(l.In) {
		return l.In[i]
	}
	return nil
}

// presentIn is i, or -1 if input i is omitted.
func presentIn(l *graph.Lowering, i int) int {
	if loweredIn(l, i) == nil {
		return -1
	}
	return i
}

// loweredOut returns output i of a lowering, or nil if it is omitted.
func loweredOut(l *graph.Lowering, i int) *graph.Operand {
	if i < len(l.Out) {
		return l.Out[i]
	}
	return nil
}

// wholeWords rounds a size up to words. Kernels that access words may do so: the alignment of
// values in plans leaves room after each.
func wholeWords(bytes int64) int64 { return (bytes + 3) &^ 3 }

// aligned rounds an offset in work space up to the next that a buffer may begin at.
func aligned(bytes int64) int64 { return (bytes + 63) &^ 63 }

// boundOperand is the operand that a buffer belongs to, or nil.
func boundOperand(l *graph.Lowering, b graph.Buffer) *graph.Operand {
	switch b.Place {
	case graph.PlaceIn:
		return l.In[b.Index]
	case graph.PlaceOut:
		return l.Out[b.Index]
	}
	return nil
}

func mustFit(l *graph.Lowering, dims []int, most int) bool {
	if len(dims) > most {
		l.Refuse("the operands have %d dims with different strides; the kernel takes at most %d", len(dims), most)
		return false
	}
	return true
}
