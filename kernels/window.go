package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// window is the sliding window of convolutions and pools: output o of an axis reads input
// elements o·stride + k·dilation − pad for k in [0, kernel).
type window struct {
	kernel, strides, dilations []int
	pads                       []int // before each axis, then after each; nil if auto determines them
	auto                       string
	ceil                       bool
}

var autoPads = []string{"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}

// windowAttrs declares the attributes that newWindow reads, except kernel_shape; a node may do without auto_pad, and have dilations.
const windowAttrs = "auto_pad string=NOTSET, pads ints, strides ints"

// newWindow reads a node's attributes for len(kernel) spatial dims.
func newWindow(n *graph.Node, kernel []int) window {
	rank := len(kernel)
	has := func(name string) bool {
		return slices.ContainsFunc(n.Op.AttrSpecs(), func(a graph.AttrSpec) bool { return a.Name == name })
	}
	w := window{kernel: kernel, auto: "NOTSET"}
	if has("auto_pad") {
		w.auto = n.Str("auto_pad")
	}
	list := func(name string, want, def int) []int {
		got := n.Ints(name)
		if got == nil {
			return slices.Repeat([]int{def}, want)
		}
		if len(got) != want {
			n.Fail("%s has %d elements, but there are %d spatial dims", name, len(got), rank)
		}
		out := make([]int, want)
		for i, x := range got {
			if x < int64(def) || x > 1<<31 {
				n.Fail("%s must be at least %d, but has %d", name, def, x)
			}
			out[i] = int(x)
		}
		return out
	}
	w.strides, w.pads = list("strides", rank, 1), list("pads", 2*rank, 0)
	w.dilations = slices.Repeat([]int{1}, rank)
	if has("dilations") {
		w.dilations = list("dilations", rank, 1)
	}
	if !slices.Contains(autoPads, w.auto) {
		n.Fail("auto_pad is %q, not NOTSET, VALID, SAME_UPPER or SAME_LOWER", w.auto)
	}
	if w.auto != "NOTSET" {
		w.pads = make([]int, 2*rank)
	}
	return w
}

// kernelShape is attribute kernel_shape, which pools require.
func kernelShape(n *graph.Node, rank int) []int {
	if rank < 1 {
		n.Fail("the input must be [N, C, …] with spatial dims")
	}
	got := n.Ints("kernel_shape")
	if len(got) != rank {
		n.Fail("kernel_shape is %d, but there are %d spatial dims", got, rank)
	}
	out := make([]int, rank)
	for i, k := range got {
		if k < 1 || k > 1<<31 {
			n.Fail("kernel_shape must be at least 1, but is %d", got)
		}
		out[i] = int(k)
	}
	return out
}

// reach is the extent of the dilated kernel along axis i.
func (w window) reach(i int) int { return (w.kernel[i]-1)*w.dilations[i] + 1 }

// same reports whether padding makes the output as long as ⌈input/stride⌉.
func (w window) same() bool { return w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" }

// results is the length of spatial axis i of the output.
func (w window) results(i int, in graph.Dim) graph.Dim {
	stride, one := graph.Num(int64(w.strides[i])), graph.Num(1)
	if w.same() {
		return in.CeilDiv(stride)
	}
	lo, hi := graph.Num(int64(w.pads[i])), graph.Num(int64(w.pads[len(w.kernel)+i]))
	room := in.Add(lo).Add(hi).Sub(graph.Num(int64(w.reach(i))))
	if !w.ceil {
		return room.FloorDiv(stride).Add(one)
	}
	// ceil_mode drops a window that would begin after the input.
	return room.CeilDiv(stride).Min(in.Add(lo).Sub(one).FloorDiv(stride)).Add(one)
}

// shape is the shape of the output: [N, channels, spatial…].
func (w window) shape(n *graph.Node, x graph.Shape, channels graph.Dim) graph.Shape {
	out := graph.Shape{x[0], channels}
	for i := range w.kernel {
		d := w.results(i, x[2+i])
		if order, known := d.Compare(graph.Num(0)); known && order <= 0 {
			n.Fail("a window of %d does not fit into %s and its padding", w.reach(i), x[2+i])
		}
		out = append(out, d)
	}
	return out
}

// before is the padding before axis i, for an input of length in.
func (w window) before(i, in int) int {
	if !w.same() {
		return w.pads[i]
	}
	total := max(0, (index.CeilDiv(in, w.strides[i])-1)*w.strides[i]+w.reach(i)-in)
	if w.auto == "SAME_LOWER" {
		return total - total/2
	}
	return total / 2
}
