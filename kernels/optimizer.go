package kernels

import (
	"math"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// optimizer describes an update rule. Its operator has the inputs
//
//	param, grad, lr, scale?, step, then a state for each slot
//
// where lr and scale are float32 scalars, scale multiplies the gradient, and step is the
// number of this update, from 1. The outputs are the new param and states, in place. A
// negative scale skips the update: they keep their values.
type optimizer struct {
	name  string // on the command line
	op    string
	doc   string
	attrs string
	slots []string // names of the states, which begin as zeros
	flops int64
	// eval returns the rule for one element: it returns the new param and updates the
	// states in s.
	eval func(u update) func(p, g float64, s []float64) float64
	// fast is the same for pieces of float32 tensors.
	fast func(u update) func(p, g []float32, s [][]float32)
	// direction replaces eval and fast in rules whose step depends on the norms of the whole
	// parameter and direction (Lamb): remember updates the states, then direction computes
	// the direction of an element.
	direction func(u update) (remember func(g float64, s []float64), direction func(p float64, s []float64) float64)
	// fastDirection is the same for pieces of float32 tensors: remember also returns the
	// sums of squares of parameter and direction, and follow steps along the direction.
	fastDirection func(u update) (remember func(p, g []float32, s [][]float32) (params, directions float64), follow func(p []float32, s [][]float32, rate float32))
	// lowered is the rule in optimizer.comp; lower is for rules with kernels of their own.
	lowered *loweredRule
	lower   func(*graph.Lowering)
	// samples are attributes to test with; more are complete samples.
	samples, more []string
	pieces        []string // graph.Tests.Pieces
}

// update is what all elements of an update share.
type update struct {
	n         *graph.Node
	lr, scale float64
	step      int64
}

// firstSlot is the input number of the first state, after param, grad, lr, scale and step.
const firstSlot = 5

func defineOptimizer(o optimizer) *graph.Op {
	in, out, overwrites := "param, grad, lr, scale?, step", "new_param", []int{0}
	for i, s := range o.slots {
		in, out = in+", "+s, out+", new_"+s
		overwrites = append(overwrites, firstSlot+i)
	}
	op := graph.Op{
		Name:       o.op,
		Domain:     own,
		Doc:        o.doc,
		In:         in,
		Out:        out,
		Attrs:      o.attrs,
		Infer:      o.infer,
		NoGrad:     true,
		Eval:       o.runEval,
		Fast:       o.runFast,
		Flops:      perElement(o.flops),
		Tests:      graph.Tests{Work: eachIn(0, o.flops), Pieces: o.pieces},
		Recompute:  graph.Never,
		Overwrites: overwrites,
		Streams:    o.direction == nil,
		Optimizer:  o.name,
	}
	if op.Lower = o.lower; o.lowered != nil {
		op.Lower = o.lowered.lower
	}
	slots := strings.Repeat(", TS>0", len(o.slots))
	for _, attrs := range o.samples {
		for _, s := range []struct{ given, shape string }{
			{"f32[]{0.1}, f32[]{0.5}, i64[]{3}", "[2,3]"},
			{"f32[]{0.1}, _, i64[]{1}", "[]"},
			{"f32[]{0.1}, f32[]{-1}, i64[]{1}", "[5]"},
			{"f32[]{0.1}, _, i64[]{2}", "[0]"},
		} {
			sample := strings.ReplaceAll("TS, TS, "+s.given+slots, "S", s.shape) + "; " + attrs
			op.Samples = append(op.Samples, strings.ReplaceAll(sample, "T", "f32"), strings.ReplaceAll(sample, "T", "f64"))
		}
	}
	op.Samples = append(op.Samples, o.more...)
	return define(op)
}

func (o optimizer) infer(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	sameAsParam(n, 1)
	wantScalar(n, 2, graph.Float32)
	wantScalar(n, 3, graph.Float32)
	wantScalar(n, 4, graph.Int64)
	sameShape(n)
	for i := range o.slots {
		sameAsParam(n, firstSlot+i)
		n.Set(1+i, n.Inputs[0].Type, n.Inputs[0].Shape)
	}
}

// skipped copies param and states unchanged and returns true if the scale says to skip.
func (o optimizer) skipped(c *graph.Call) bool {
	if !skips(c.In[3]) {
		return false
	}
	copyTensor(c.Out[0], c.In[0])
	for i := range o.slots {
		copyTensor(c.Out[1+i], c.In[firstSlot+i])
	}
	return true
}

// copyTensor copies src to dst, unless they share memory.
func copyTensor(dst, src *graph.Tensor) {
	if len(dst.Bytes) > 0 && &dst.Bytes[0] != &src.Bytes[0] {
		copy(dst.Bytes, src.Bytes)
	}
}

func newUpdate(c *graph.Call) update {
	u := update{n: c.Node, lr: c.In[2].Float(0), scale: 1, step: c.In[4].Int(0)}
	if c.In[3] != nil {
		u.scale = c.In[3].Float(0)
	}
	return u
}

func (o optimizer) runEval(c *graph.Call) {
	if o.skipped(c) {
		return
	}
	if o.direction != nil {
		o.runDirection(c, f32.Serial)
		return
	}
	u := newUpdate(c)
	f := o.eval(u)
	s := make([]float64, len(o.slots))
	for k := range c.Out[0].Len() {
		for i := range s {
			s[i] = c.In[firstSlot+i].Float(k)
		}
		c.Out[0].SetFloat(k, f(c.In[0].Float(k), u.scale*c.In[1].Float(k), s))
		for i := range s {
			c.Out[1+i].SetFloat(k, s[i])
		}
	}
}

func (o optimizer) runFast(c *graph.Call) {
	if o.skipped(c) {
		return
	}
	switch {
	case o.direction != nil && c.In[0].Type != graph.Float32:
		o.runDirection(c, c.Parallel)
		return
	case c.In[0].Type != graph.Float32:
		o.runEval(c)
		return
	case o.direction != nil:
		o.runFastDirection(c)
		return
	}
	u := newUpdate(c)
	f := o.fast(u)
	p, g := c.Out[0].F32(), c.In[1].F32()
	all := make([][]float32, len(o.slots))
	for i := range all {
		all[i] = c.Out[1+i].F32()
	}
	c.Parallel(len(p), f32.Grain/2, func(lo, hi int) {
		// Rules work in place, on the outputs.
		copyUnless(p[lo:hi], c.In[0].F32()[lo:hi])
		s := make([][]float32, len(all))
		for i := range all {
			s[i] = all[i][lo:hi]
			copyUnless(s[i], c.In[firstSlot+i].F32()[lo:hi])
		}
		f(p[lo:hi], g[lo:hi], s)
	})
}

// runDirection makes two passes: the first updates the states and computes the norms, the
// second updates the parameter. Norms are summed by chunks, like ClipNorm's.
func (o optimizer) runDirection(c *graph.Call, par f32.Parallel) {
	u := newUpdate(c)
	remember, direction := o.direction(u)
	p, n := c.In[0], c.In[0].Len()
	chunks := index.CeilDiv(n, clipChunk)
	params, directions := make([]float64, chunks), make([]float64, chunks)
	eachChunk := func(f func(chunk, k int, s []float64)) {
		par(chunks, 1, func(lo, hi int) {
			s := make([]float64, len(o.slots))
			for i := lo; i < hi; i++ {
				for k := i * clipChunk; k < min((i+1)*clipChunk, n); k++ {
					f(i, k, s)
				}
			}
		})
	}
	eachChunk(func(chunk, k int, s []float64) {
		for i := range s {
			s[i] = c.In[firstSlot+i].Float(k)
		}
		remember(u.scale*c.In[1].Float(k), s)
		for i := range s {
			c.Out[1+i].SetFloat(k, s[i])
		}
		x := p.Float(k)
		d := direction(x, s)
		params[chunk] += x * x
		directions[chunk] += d * d
	})
	rate := u.lr * trust(params, directions)
	eachChunk(func(_, k int, s []float64) {
		for i := range s {
			s[i] = c.Out[1+i].Float(k)
		}
		x := p.Float(k)
		c.Out[0].SetFloat(k, x-rate*direction(x, s))
	})
}

// runFastDirection is runDirection for float32.
func (o optimizer) runFastDirection(c *graph.Call) {
	u := newUpdate(c)
	remember, follow := o.fastDirection(u)
	p, g, n := c.Out[0].F32(), c.In[1].F32(), c.In[0].Len()
	chunks := index.CeilDiv(n, clipChunk)
	params, directions := make([]float64, chunks), make([]float64, chunks)
	eachChunk := func(f func(chunk, lo, hi int, s [][]float32)) {
		c.Parallel(chunks, 1, func(first, end int) {
			s := make([][]float32, len(o.slots))
			for i := first; i < end; i++ {
				lo, hi := i*clipChunk, min((i+1)*clipChunk, n)
				for k := range s {
					s[k] = c.Out[1+k].F32()[lo:hi]
				}
				f(i, lo, hi, s)
			}
		})
	}
	eachChunk(func(chunk, lo, hi int, s [][]float32) {
		copyUnless(p[lo:hi], c.In[0].F32()[lo:hi])
		for k := range s {
			copyUnless(s[k], c.In[firstSlot+k].F32()[lo:hi])
		}
		params[chunk], directions[chunk] = remember(p[lo:hi], g[lo:hi], s)
	})
	rate := float32(u.lr * trust(params, directions))
	eachChunk(func(_, lo, hi int, s [][]float32) { follow(p[lo:hi], s, rate) })
}

// trust is Lamb's trust ratio ‖param‖/‖direction‖ from sums of squares; 1 if either is zero.
func trust(params, directions []float64) float64 {
	p, d := 0.0, 0.0
	for i := range params {
		p, d = p+params[i], d+directions[i]
	}
	if p == 0 || d == 0 {
		return 1
	}
	return math.Sqrt(p / d)
}

// copyUnless copies src to dst, unless they share memory.
func copyUnless(dst, src []float32) {
	if len(dst) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// loweredRule is an update rule in optimizer.comp: its number, and the parameters that depend
// on the node.
type loweredRule struct {
	rule    uint32
	other   func(n *graph.Node) bool
	numbers func(n *graph.Node) []float64 // decay, epsilon, keep1, beta2, keep2, log1, log2
}

func (r *loweredRule) lower(l *graph.Lowering) {
	f, i := graph.Float32, graph.Int64
	if !lower.OnlyTypes(l, []graph.DType{f, f, f, f, i, f}, []graph.DType{f}) {
		return
	}
	n := l.Out[0].Len()
	if n == 0 {
		return
	}
	scale, scaled := lower.Reads(2), lower.In(l, 3) != nil
	if scaled {
		scale = lower.Reads(3)
	}
	buffers := []graph.Buffer{lower.Writes(0), lower.Reads(1), lower.Reads(2), scale, lower.Reads(4)}
	for o := 1; o <= 2; o++ {
		if lower.Out(l, o) != nil {
			buffers = append(buffers, lower.Writes(o))
		} else {
			buffers = append(buffers, lower.Unused(true))
		}
	}
	numbers := append(r.numbers(l.Node), make([]float64, 7)...)[:7]
	// lr, scale and step are scalars.
	lower.InPieces(l, n, buffers, []int64{4, 4, 0, 0, 0, 4, 4}, func(n int, buffers []graph.Buffer) {
		push := lower.Words(l, n)
		for _, x := range numbers {
			push = append(push, lower.Bits(x))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: optimizerKernel, Spec: []uint32{r.rule, lower.OneIf(scaled), lower.OneIf(r.other != nil && r.other(l.Node))},
			Push: push, Buffers: buffers, Groups: lower.InLine(l, index.CeilDiv(n, 4*256)),
		})
	})
}

var optimizerKernel = lower.Joined(lower.Halved(lower.Shader("optimizer", "optimizer.comp")))

func decayOf(n *graph.Node) float64 { return n.Float("weight_decay") }
