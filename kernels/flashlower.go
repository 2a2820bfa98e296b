package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// flashKernel is a part of flash.comp, and its form that loads floats by pairs.
type flashKernel struct{ singles, paired *graph.Kernel }

func newFlashKernel(part string) flashKernel {
	name, defines := "flash-"+part, []string{"-D" + strings.ToUpper(part), fmt.Sprintf("-DROWS=%d", flashRows)}
	singles := halved(shader(name, "flash.comp", defines...))
	return flashKernel{singles, shader(name+"-pairs", "flash.comp", append(defines, "-DPAIRS")...)}
}

var (
	flashForward = newFlashKernel("forward")
	flashQueries = newFlashKernel("queries")
	flashKeys    = newFlashKernel("keys")
	flashDots    = halved(shader("flash-dots", "flash.comp", "-DDOTS"))
)

// flashRows is how many rows of the other side a group goes along at a time, and
// mostFlashWidth the widest rows whose columns a lane has in registers.
const flashRows, mostFlashWidth = 4, 256

// loweredFlash is a node of either operator.
type loweredFlash struct {
	*flash
	l  *graph.Lowering
	at int // input Q
}

func newLoweredFlash(l *graph.Lowering, at, bias int) (f loweredFlash, ok bool) {
	if !onlyF32(l) {
		return f, false
	}
	f = loweredFlash{newFlash(loweredCall(l), at, bias), l, at}
	if f.batch*f.queries*f.keys == 0 {
		for i := range l.Out {
			empty := 0.0
			if at == 0 && i == 1 { // a logarithm of what no key adds to
				if empty = math.Inf(-1); f.safe {
					empty = math.Inf(1)
				}
			}
			lowerFill(l, i, uint64(bits(empty)))
		}
		return f, false
	}
	return f, true
}

func lowerFlash(l *graph.Lowering) {
	if f, ok := newLoweredFlash(l, 0, 3); ok {
		f.part(flashForward, f.batch, f.queries, f.keys, map[int]graph.Buffer{0: writes(0), 6: writes(1)})
	}
}

func lowerFlashGrad(l *graph.Lowering) {
	f, ok := newLoweredFlash(l, 1, 6)
	if !ok {
		return
	}
	if f.dlse != nil {
		l.Refuse("a gradient flows into its logarithms")
		return
	}
	l.Scratch = int64(4 * f.batch * f.queries)
	f.append(flashDots, f.batch*f.queries, nil, map[int]graph.Buffer{0: scratch(0, l.Scratch, true), 1: reads(4)})
	dots := scratch(0, l.Scratch, false)
	f.part(flashQueries, f.batch, f.queries, f.keys, map[int]graph.Buffer{0: writes(0), 7: dots})
	f.part(flashKeys, f.batch/f.share, f.keys, f.queries, map[int]graph.Buffer{0: writes(1), 7: dots, 8: writes(2)})
}

// part appends a kernel that goes along rows for columns of so many matrices. A driver
// for the processor loads two floats as fast as one, if the sizes let it and they are
// not 16 bits each; on a graphics processor a lane has but one column: its registers
// are few.
func (f loweredFlash) part(k flashKernel, matrices, columns, rows int, own map[int]graph.Buffer) {
	limits := f.l.Limits
	if w := max(f.width, f.out); w > mostFlashWidth {
		f.l.Refuse("its heads are %d wide; the kernel takes %d", w, mostFlashWidth)
		return
	}
	kernel, each := k.singles, limits.Subgroup
	if limits.Int64 && !limits.Shared && !ofHalves(f.l) && f.width%2 == 0 && f.out%2 == 0 && (!f.transK || f.keys%2 == 0) {
		kernel, each = k.paired, 2*each
	}
	spec := []uint32{uint32(ceilDiv(f.width, each) * each), uint32(ceilDiv(f.out, each) * each), oneIf(f.transK), oneIf(f.bias != nil),
		oneIf(f.left >= 0 || f.right >= 0), oneIf(f.skips()), oneIf(f.width%each == 0) | oneIf(f.out%each == 0)<<1 | oneIf(rows%flashRows == 0)<<2, oneIf(f.safe)}
	f.append(kernel, matrices*ceilDiv(columns, each), spec, own)
}

// append appends a dispatch; own is the bindings that others do not have there.
func (f loweredFlash) append(kernel *graph.Kernel, groups int, spec []uint32, own map[int]graph.Buffer) {
	l := f.l
	shape, strides, bias := []int{1, 1, f.batch}, make([]int, 5), unused(false)
	if f.bias != nil {
		last := len(f.flash.shape) - 2
		dims, st := mergeStrides(f.flash.shape[:last], f.biasAt[:last])
		if !mustFit(l, dims, 3) {
			return
		}
		shape, strides = frontFilled(3, dims, 1), slices.Concat(frontFilled(3, st[0], 0), f.biasAt[last:])
		bias = reads(3 + 3*f.at)
	}
	buffers := []graph.Buffer{unused(true), reads(f.at), reads(f.at + 1), reads(f.at + 2), bias, unused(false), unused(true), unused(false), unused(true)}
	if f.at == 1 {
		buffers[5], buffers[6] = reads(0), reads(5)
	}
	for i, b := range own {
		buffers[i] = b
	}
	for first := 0; first < groups; first += l.Limits.Groups[0] {
		push := words(l, append([]int{first, f.queries, f.keys, f.width, f.out, f.share, shape[1], shape[2]}, strides...)...)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  kernel,
			Spec:    append([]uint32{uint32(l.Limits.Subgroup)}, spec...),
			Push:    append(push, uint32(int32(f.left)), uint32(int32(f.right)), bits(f.fill), bits(f.scale)),
			Buffers: buffers, Groups: [3]int{min(groups-first, l.Limits.Groups[0]), 1, 1},
		})
	}
}
