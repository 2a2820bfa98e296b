package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var indexedKernels = map[graph.DType]*graph.Kernel{
	graph.Bool:    lower.Shader("indexed-b", "indexed.comp", "-DELEMENT=uint8_t"),
	graph.Float32: lower.Shader("indexed-f", "indexed.comp", "-DELEMENT=float", "-DFOLDS"),
	graph.Int32:   lower.Shader("indexed-i", "indexed.comp", "-DELEMENT=int", "-DFOLDS"),
	graph.Int64:   lower.Shader("indexed-l", "indexed.comp", "-DELEMENT=int64_t", "-DFOLDS"),
}

// The modes of indexed.comp: gather, or scatter by the name of the reduction.
const indexedTake = 0

var indexedBring = map[string]uint32{"none": 1, "add": 2, "mul": 3, "max": 4, "min": 5}

// indexed holds the parameters of indexed.comp.
type indexed struct {
	steps, indexStep, elementStep    int
	dims, indexAt, elementAt, dataAt []int
	sizes, strides                   []int
}

// indexedElements is for GatherElements and ScatterElements: one index for each element.
func indexedElements(l *graph.Lowering, indices, data []int) indexed {
	axis := axisOf(l.Node, l.Node.Int("axis"), len(data))
	si, sd := index.Strides(indices), index.Strides(data)
	less := func(list []int) []int { return slices.Delete(slices.Clone(list), axis, axis+1) }
	return indexed{
		steps: indices[axis], indexStep: si[axis], elementStep: si[axis],
		dims: less(indices), indexAt: less(si), elementAt: less(si), dataAt: less(sd),
		sizes: []int{data[axis]}, strides: []int{sd[axis]},
	}
}

// indexedRows is for GatherND and ScatterND: each row of indices selects a contiguous slice,
// after common batch dims.
func indexedRows(l *graph.Lowering, indices, data []int, batch int) indexed {
	k := indices[len(indices)-1]
	batches, width := index.Elems(data[:batch]), index.Elems(data[batch+k:])
	rows := index.Elems(indices[batch : len(indices)-1])
	return indexed{
		steps: rows, indexStep: k, elementStep: width,
		dims: []int{batches, width}, indexAt: []int{rows * k, 0}, elementAt: []int{rows * width, 1}, dataAt: []int{index.Elems(data[batch:]), 1},
		sizes: data[batch : batch+k], strides: index.Strides(data)[batch : batch+k],
	}
}

func (x indexed) append(l *graph.Lowering, mode uint32, from graph.Buffer, indices int) {
	dims, lists := index.Merge(x.dims, x.indexAt, x.elementAt, x.dataAt)
	lines := index.Elems(x.dims)
	if lines*x.steps == 0 || l.Refused != "" || !lower.MustFit(l, dims, 4) || !lower.MustFit(l, x.sizes, 5) {
		return
	}
	t := l.Out[0].Type
	if mode == indexedTake && t.Size() == 4 {
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
	push := lower.Words(l, lines, x.steps, x.indexStep, x.elementStep, len(x.sizes))
	push = append(push, lower.Words(l, index.Padded(4, dims, 1)...)...)
	for _, list := range lists {
		push = append(push, lower.Words(l, index.Padded(4, list, 0)...)...)
	}
	for _, list := range [][]int{x.sizes, x.strides} {
		push = append(push, lower.Words(l, append(slices.Clone(list), make([]int, 5-len(list))...)...)...)
	}
	invocations := lines
	if mode == indexedTake {
		invocations *= x.steps
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: kernel, Spec: []uint32{mode, step}, Push: push,
		Buffers: []graph.Buffer{lower.Writes(0), from, lower.Reads(indices)}, Groups: lower.InLine(l, index.CeilDiv(invocations, 64)),
	})
}

// lowerScatter copies the data, then scatters the updates into the copy.
func lowerScatter(x func(l *graph.Lowering) indexed) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		shape := l.Out[0].Shape
		whole := index.Strides(shape)
		lower.Move{Shape: shape, From: whole, To: whole}.Lower(l)
		x(l).append(l, indexedBring[l.Node.Str("reduction")], lower.Reads(2), 1)
	}
}

var (
	lowerScatterElements = lowerScatter(func(l *graph.Lowering) indexed {
		return indexedElements(l, l.In[1].Shape, l.Out[0].Shape)
	})
	lowerScatterND = lowerScatter(func(l *graph.Lowering) indexed {
		return indexedRows(l, l.In[1].Shape, l.Out[0].Shape, 0)
	})
)
