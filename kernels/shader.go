package kernels

import (
	"embed"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// Shaders are compute kernels for devices that run SPIR-V. Their GLSL lies
// beside the operators, what the compiler made of it in spv; the test that
// compiles them finds a stale one by its hash, also where there is no
// compiler.
//
//go:generate go test -run TestShaders -update .
//go:embed spv
var compiled embed.FS

// sources are asked for the types of buffers, and for what shaders share.
//
//go:embed *.comp *.glsl
var sources embed.FS

// shaderSource is how a shader comes about.
type shaderSource struct {
	kernel *graph.Kernel
	file   string
	args   []string
	edit   func(text string) string // nil: as the file has it
	// library: kernels are made of its functions, so these stay as they are.
	library bool
}

var shaders []shaderSource

// shader declares a kernel: a file and what the compiler is told beside it.
func shader(name, file string, args ...string) *graph.Kernel {
	return editedShader(name, file, nil, args...)
}

func editedShader(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	// A shader that was just declared has no code until it is compiled.
	code, _ := compiled.ReadFile("spv/" + name + ".spv")
	k := &graph.Kernel{Name: name, Code: code}
	shaders = append(shaders, shaderSource{kernel: k, file: file, args: args, edit: edit})
	return k
}

// sourceOf is how a kernel that is declared comes about.
func sourceOf(k *graph.Kernel) shaderSource {
	return shaders[slices.IndexFunc(shaders, func(s shaderSource) bool { return s.kernel == k })]
}

// form declares another form of the kernel: its text, edited once more.
func (s shaderSource) form(suffix string, edit func(text string) string) *graph.Kernel {
	return editedShader(s.kernel.Name+suffix, s.file, func(text string) string {
		if s.edit != nil {
			text = s.edit(text)
		}
		return edit(text)
	}, s.args...)
}

// shaderLibrary declares what kernels are made of.
func shaderLibrary(name, file string, edit func(string) string, args ...string) *graph.Kernel {
	k := editedShader(name, file, edit, args...)
	shaders[len(shaders)-1].library = true
	return k
}

// joined declares the form of a kernel that does many dispatches at once.
func joined(k *graph.Kernel) *graph.Kernel {
	src := sourceOf(k)
	k.Joined = shader(k.Name+"-joined", src.file, append(slices.Clone(src.args), "-DJOINED")...)
	return k
}

// The bindings of a dispatch: what it writes and what it reads.

func writes(out int) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceOut, Index: out, Writes: true}
}
func reads(in int) graph.Buffer { return graph.Buffer{Place: graph.PlaceIn, Index: in} }

// rereads is an output that an earlier dispatch wrote.
func rereads(out int) graph.Buffer { return graph.Buffer{Place: graph.PlaceOut, Index: out} }

// unused fills a binding that a dispatch has no use for; written says whether the
// shader declares it without readonly.
func unused(written bool) graph.Buffer { return graph.Buffer{Place: graph.PlaceNone, Writes: written} }

// unwritten is a buffer that an earlier dispatch wrote, to read.
func unwritten(b graph.Buffer) graph.Buffer {
	b.Writes = false
	return b
}

func scratch(at, bytes int64, written bool) graph.Buffer {
	return graph.Buffer{Place: graph.PlaceScratch, At: at, Bytes: bytes, Writes: written}
}

// bits are float32 as words of push constants.
func bits(x float64) uint32 { return math.Float32bits(float32(x)) }

func oneIf(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// words are numbers as words of push constants; a shader counts elements in 32
// bits.
func words[N int | int64](l *graph.Lowering, ns ...N) []uint32 {
	out := make([]uint32, len(ns))
	for i, n := range ns {
		if int64(n) > math.MaxUint32 {
			l.Refuse("%d elements are more than 32 bits count", int64(n))
		}
		out[i] = uint32(n)
	}
	return out
}

// inLine spreads n groups over two dims.
func inLine(l *graph.Lowering, n int) [3]int {
	x := min(max(n, 1), l.Limits.Groups[0])
	y := ceilDiv(max(n, 1), x)
	if y > l.Limits.Groups[1] {
		l.Refuse("%d groups are more than the device takes", n)
	}
	return [3]int{x, y, 1}
}

// onlyTypes refuses a node whose operands have other types than those listed,
// by input and by output; a shorter list's last type holds for the rest.
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

// loweredIn is input i of a lowering, or nil if it is omitted.
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

// loweredOut is output i of a lowering, or nil if it is omitted.
func loweredOut(l *graph.Lowering, i int) *graph.Operand {
	if i < len(l.Out) {
		return l.Out[i]
	}
	return nil
}

// wholeWords is the bytes of the words that so many bytes are in: what a kernel sees
// by words, for offsets in plans leave room behind each value.
func wholeWords(bytes int64) int64 { return (bytes + 3) &^ 3 }

// aligned is where what follows so many bytes of scratch may begin.
func aligned(bytes int64) int64 { return (bytes + 63) &^ 63 }

// boundOperand is the operand that a buffer is of, or nil.
func boundOperand(l *graph.Lowering, b graph.Buffer) *graph.Operand {
	switch b.Place {
	case graph.PlaceIn:
		return l.In[b.Index]
	case graph.PlaceOut:
		return l.Out[b.Index]
	}
	return nil
}

// mergeStrides tells lists of elements under one shape by as few dims as can
// be: neighbours that are one run in all of them are merged.
func mergeStrides(shape []int, lists ...[]int) ([]int, [][]int) {
	var dims []int
	out := make([][]int, len(lists))
	for i, d := range shape {
		if d == 1 {
			continue
		}
		k := len(dims) - 1
		joins := k >= 0
		for n, st := range lists {
			joins = joins && out[n][k] == st[i]*d
		}
		if joins {
			dims[k] *= d
		} else {
			dims = append(dims, d)
		}
		for n, st := range lists {
			if joins {
				out[n][k] = st[i]
			} else {
				out[n] = append(out[n], st[i])
			}
		}
	}
	if len(dims) == 0 {
		dims = []int{1}
		for n := range out {
			out[n] = []int{0}
		}
	}
	return dims, out
}

// frontFilled puts dims of 1 (or strides of 0) in front until there are n.
func frontFilled(n int, list []int, fill int) []int {
	return append(slices.Repeat([]int{fill}, max(0, n-len(list))), list...)
}

func mustFit(l *graph.Lowering, dims []int, most int) bool {
	if len(dims) > most {
		l.Refuse("its strides make %d dims of it; the kernel takes %d", len(dims), most)
		return false
	}
	return true
}
