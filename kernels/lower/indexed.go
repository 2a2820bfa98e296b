package lower

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

var indexedKernels = map[graph.DType]*graph.Kernel{
	graph.Bool:    Shader("indexed-b", "indexed.comp", "-DELEMENT=uint8_t"),
	graph.Float32: Shader("indexed-f", "indexed.comp", "-DELEMENT=float", "-DFOLDS"),
	graph.Int32:   Shader("indexed-i", "indexed.comp", "-DELEMENT=int", "-DFOLDS"),
	graph.Int64:   Shader("indexed-l", "indexed.comp", "-DELEMENT=int64_t", "-DFOLDS"),
}

// Take is the mode of indexed.comp that gathers.
const Take = 0

// Bring has the modes that scatter, by the name of the reduction.
var Bring = map[string]uint32{"none": 1, "add": 2, "mul": 3, "max": 4, "min": 5}

// Indexed holds the parameters of indexed.comp.
type Indexed struct {
	Steps, IndexStep, ElementStep    int
	Dims, IndexAt, ElementAt, DataAt []int
	Sizes, Strides                   []int
}

// IndexedElements is for GatherElements and ScatterElements: one index for each element.
func IndexedElements(axis int, indices, data []int) Indexed {
	si, sd := index.Strides(indices), index.Strides(data)
	less := func(list []int) []int { return slices.Delete(slices.Clone(list), axis, axis+1) }
	return Indexed{
		Steps: indices[axis], IndexStep: si[axis], ElementStep: si[axis],
		Dims: less(indices), IndexAt: less(si), ElementAt: less(si), DataAt: less(sd),
		Sizes: []int{data[axis]}, Strides: []int{sd[axis]},
	}
}

// IndexedRows is for GatherND and ScatterND: each row of indices selects a contiguous slice,
// after common batch dims.
func IndexedRows(indices, data []int, batch int) Indexed {
	k := indices[len(indices)-1]
	batches, width := index.Elems(data[:batch]), index.Elems(data[batch+k:])
	rows := index.Elems(indices[batch : len(indices)-1])
	return Indexed{
		Steps: rows, IndexStep: k, ElementStep: width,
		Dims: []int{batches, width}, IndexAt: []int{rows * k, 0}, ElementAt: []int{rows * width, 1}, DataAt: []int{index.Elems(data[batch:]), 1},
		Sizes: data[batch : batch+k], Strides: index.Strides(data)[batch : batch+k],
	}
}

// Append appends the gather or scatter between a buffer and output 0, by the indices in an input.
func (x Indexed) Append(l *graph.Lowering, mode uint32, from graph.Buffer, indices int) {
	dims, lists := index.Merge(x.Dims, x.IndexAt, x.ElementAt, x.DataAt)
	lines := index.Elems(x.Dims)
	if lines*x.Steps == 0 || l.Refused != "" || !MustFit(l, dims, 4) || !MustFit(l, x.Sizes, 5) {
		return
	}
	t := l.Out[0].Type
	if mode == Take && t.Size() == 4 {
		t = graph.Int32 // any bits
	}
	kernel := indexedKernels[t]
	if kernel == nil || t == graph.Int64 && !l.Limits.Int64 || t == graph.Bool && !l.Limits.Int8 {
		l.Refuse("there is no kernel for %s data", t)
		return
	}
	step := uint32(1)
	if l.In[indices].Type == graph.Int64 {
		step = 2
	}
	push := Words(l, lines, x.Steps, x.IndexStep, x.ElementStep, len(x.Sizes))
	push = append(push, Words(l, index.Padded(4, dims, 1)...)...)
	for _, list := range lists {
		push = append(push, Words(l, index.Padded(4, list, 0)...)...)
	}
	for _, list := range [][]int{x.Sizes, x.Strides} {
		push = append(push, Words(l, append(slices.Clone(list), make([]int, 5-len(list))...)...)...)
	}
	invocations := lines
	if mode == Take {
		invocations *= x.Steps
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{mode, step}, Push: push,
		Buffers: []graph.Buffer{Writes(0), from, Reads(indices)}, Groups: InLine(l, index.CeilDiv(invocations, 64)),
	})
}

// Scatter copies the data, then scatters the updates into the copy.
func Scatter(x func(l *graph.Lowering) Indexed) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		shape := l.Out[0].Shape
		whole := index.Strides(shape)
		Move{Shape: shape, From: whole, To: whole}.Lower(l)
		x(l).Append(l, Bring[l.Node.Str("reduction")], Reads(2), 1)
	}
}
