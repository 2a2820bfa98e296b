package kernels

import (
	"math"

	"memopt/memopt/graph"
)

var resizeKernel = halved(shader("resize", "resize.comp"))

const maxResizeDims = 4

var resizeModes = map[string]uint32{"nearest": 0, "linear": 1, "cubic": 2}

// nearestShift is what, added to a place, makes the nearest input its whole part.
// Ties are told by a little that no place of a sane size comes near.
var nearestShift = map[string]float64{
	"round_prefer_floor": 0.5 - 1e-6, "round_prefer_ceil": 0.5 + 1e-6, "floor": 1e-6, "ceil": 1 - 1e-6,
}

func lowerResize(l *graph.Lowering)     { lowerResizing(l, false, l.In[0].Shape, l.Out[0].Shape, 1) }
func lowerResizeGrad(l *graph.Lowering) { lowerResizing(l, true, l.Out[0].Shape, l.In[0].Shape, 2) }

// lowerResizing is from x to y, or the gradient; input first is roi, and scales
// and sizes follow.
func lowerResizing(l *graph.Lowering, back bool, x, y []int, first int) {
	n := l.Node
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	if n.Str("coordinate_transformation_mode") == "tf_crop_and_resize" || n.Int("antialias") != 0 || n.Int("exclude_outside") != 0 {
		l.Refuse("a part of the data, antialias and exclude_outside have no kernel")
		return
	}
	var scales, sizes *graph.Tensor
	if v := n.In(first + 1); given(v) {
		scales = v.Contents()
	}
	if v := n.In(first + 2); given(v) {
		c := loweredCall(l, first+2)
		if c == nil {
			return
		}
		sizes = c.In[first+2]
	}
	if elems(y) == 0 || elems(x) == 0 {
		if l.Out[0].Len() > 0 {
			lowerFill(l, 0, 0)
		}
		return
	}
	// Neighbours that stay as they are are one axis.
	var ins, outs []int
	var lines []*resizeLine
	for i, line := range resizeLines(n, x, y, nil, scales, sizes) {
		if k := len(lines) - 1; line == nil && k >= 0 && lines[k] == nil {
			ins[k], outs[k] = ins[k]*x[i], outs[k]*y[i]
			continue
		}
		ins, outs, lines = append(ins, x[i]), append(outs, y[i]), append(lines, line)
	}
	if !mustFit(l, ins, maxResizeDims) {
		return
	}
	more := maxResizeDims - len(lines)
	lines = append(make([]*resizeLine, more), lines...)
	mode, resized := n.Str("mode"), uint32(0)
	var step, start [maxResizeDims]fixed
	for d, line := range lines {
		if line == nil {
			continue
		}
		shift := 0.0
		if mode == "nearest" {
			shift = nearestShift[n.Str("nearest_mode")]
		}
		resized |= 1 << d
		begin := line.place(0)
		step[d], start[d] = newFixed(line.place(1)-begin), newFixed(begin+shift)
		if line.out == 1 {
			step[d] = fixed{}
		}
		if mode == "nearest" && !line.nearestBy(step[d], start[d]) {
			l.Refuse("axis %d has places too near to the middle between inputs", d-more)
			return
		}
	}
	push := append(words(l, l.Out[0].Len()), bits(n.Float("cubic_coeff_a")))
	push = append(push, words(l, frontFilled(maxResizeDims, ins, 1)...)...)
	push = append(push, words(l, frontFilled(maxResizeDims, outs, 1)...)...)
	for _, list := range [][maxResizeDims]fixed{step, start} {
		for _, f := range list {
			push = append(push, uint32(f.whole))
		}
		for _, f := range list {
			push = append(push, f.part)
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: resizeKernel, Spec: []uint32{resizeModes[mode], resized, oneIf(back)}, Push: push,
		Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: inLine(l, ceilDiv(l.Out[0].Len(), 64)),
	})
}

// fixed is a number with 32 bits behind the point.
type fixed struct {
	whole int32
	part  uint32
}

func newFixed(x float64) fixed {
	v := int64(math.Round(x * (1 << 32)))
	return fixed{int32(v >> 32), uint32(v)}
}

func (f fixed) bits() int64 { return int64(f.whole)<<32 | int64(f.part) }

// nearestBy reports whether step and start lead each output to its tap.
func (l resizeLine) nearestBy(step, start fixed) bool {
	for o := range l.out {
		at := int((start.bits() + int64(o)*step.bits()) >> 32)
		if taps := l.taps(o); len(taps) != 1 || taps[0].at != max(0, min(at, l.in-1)) {
			return false
		}
	}
	return true
}
