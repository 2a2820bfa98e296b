package kernels

import (
	"memopt/kernels/internal/f32"
	"memopt/memopt/graph"
)

// loweredLinear is LinearCrossEntropy or its gradient as kernels: products, the
// passes of the loss and sums over rows, for some rows after others. The scores of
// those lie in scratch behind what the loss keeps of each sample. What is added up
// over rows goes on from chunk to chunk in the order that it has over all, so the
// bits are those of the pieces.
type loweredLinear struct {
	lossLowering
	x, weight, bias    int // inputs; the bias may be missing
	features, classes  int
	toClass, toFeature int // strides of the weight
	chunk              int // rows at a time
	first, rows        int // of the chunk at hand
	end                int64
}

// newLoweredLinear begins a lowering whose inputs are x, weight, labels and bias
// from one on; nil if it is refused.
func newLoweredLinear(l *graph.Lowering, x int) *loweredLinear {
	for _, o := range append(l.Out, l.In[x]) {
		if o != nil && o.Type != graph.Float32 {
			l.Refuse("x is %s; there is a kernel for f32", o.Type)
			return nil
		}
	}
	weight := l.In[x+1].Shape
	c := &loweredLinear{x: x, weight: x + 1, bias: x + 3, features: weight[0], classes: weight[1], toClass: 1, toFeature: weight[1]}
	if l.Node.Int("transB") != 0 {
		c.classes, c.features, c.toClass, c.toFeature = weight[0], weight[1], weight[1], 1
	}
	samples := l.In[x].Shape[0]
	if samples*c.features*c.classes == 0 {
		l.Refuse("there are no samples, features or classes")
		return nil
	}
	c.lossLowering = lossLowering{l: l, shape: []int{samples, c.classes}, labels: x + 2, weights: -1, logProb: unused(true), slope: unused(false)}
	if c.chunk = ceilDiv(l.Node.Int("rows"), reduceBlock) * reduceBlock; c.chunk == 0 {
		c.chunk = f32.BlockK
	}
	c.end = aligned(c.work()) + aligned(int64(4*min(c.chunk, samples)*c.classes))
	l.Scratch = c.end
	// What a plan has room for may be more than the device shows at once.
	c.chunk = min(c.chunk, int(l.Limits.Range/int64(4*c.classes))/reduceBlock*reduceBlock)
	if c.chunk == 0 {
		l.Refuse("the scores of %d rows are more than the device shows", reduceBlock)
		return nil
	}
	return c
}

// chunks calls f for each, with its scores.
func (c *loweredLinear) chunks(f func(z graph.Buffer)) {
	for c.first = 0; c.first < c.samples() && c.l.Refused == ""; c.first += c.chunk {
		c.rows = min(c.chunk, c.samples()-c.first)
		z := scratch(aligned(c.work()), int64(4*c.rows*c.classes), true)
		p := productOf(c.rows, c.classes, c.features, 1, c.part(c.x), factor{reads(c.weight), 0, c.toClass, c.toFeature}, z, c.rows*c.classes)
		if loweredIn(c.l, c.bias) != nil {
			p.c, p.biased, p.beta, p.cj = reads(c.bias), true, 1, 1
		}
		p.append(c.l)
		f(z)
	}
}

// part is the chunk's rows of an input [rows, features].
func (c *loweredLinear) part(in int) factor {
	b := reads(in)
	b.At = int64(4 * c.first * c.features)
	return factor{b, 0, c.features, 1}
}

func lowerLinearLoss(l *graph.Lowering) {
	c := newLoweredLinear(l, 0)
	if c == nil {
		return
	}
	c.chunks(func(z graph.Buffer) {
		c.some(lossOfRows, c.first, c.rows, unused(true), unwritten(z), unused(true))
	})
	c.pass(lossOfAll)
}

func lowerLinearLossGrad(l *graph.Lowering) {
	c := newLoweredLinear(l, 1)
	if c == nil {
		return
	}
	c.slope = reads(0)
	c.weigh()
	sums := c.biasSums()
	c.chunks(func(z graph.Buffer) {
		c.some(scoresGrad, c.first, c.rows, z, unwritten(z), unused(true))
		if loweredOut(l, 0) != nil {
			to := writes(0)
			to.At = int64(4 * c.first * c.features)
			productOf(c.rows, c.features, c.classes, 1, factor{z, 0, c.classes, 1}, factor{reads(c.weight), 0, c.toFeature, c.toClass}, to, c.rows*c.features).append(l)
		}
		if loweredOut(l, 1) != nil {
			flow, x := factor{z, 0, 1, c.classes}, c.part(c.x)
			x.outside, x.along = x.along, x.outside
			p := productOf(c.features, c.classes, c.rows, 1, x, flow, writes(1), c.features*c.classes)
			if c.toFeature == 1 { // a row for each class
				p = productOf(c.classes, c.features, c.rows, 1, flow, x, writes(1), c.features*c.classes)
			}
			if c.first > 0 {
				p.goesOn, p.c, p.ci, p.cj = true, rereads(1), p.ldy, 1
			}
			p.append(l)
		}
		sums.add(z)
	})
	sums.finish()
}

// linearBias is the gradient of the bias: what flows into the scores, added up over
// rows as a reduction adds it up, in parts of its own; nil if nobody asks for it.
type linearBias struct {
	*loweredLinear
	parts, each int // rows of a part
	stride      int // from a part's sums to the next
	at          int64
}

func (c *loweredLinear) biasSums() *linearBias {
	if loweredOut(c.l, 2) == nil {
		return nil
	}
	b := &linearBias{loweredLinear: c, stride: ceilDiv(c.classes, 16) * 16, at: c.end}
	b.parts, b.each = reduceParts(c.classes, c.samples(), true)
	c.l.Scratch += b.bytes()
	return b
}

func (b *linearBias) bytes() int64 { return int64(4 * b.parts * b.stride) }

// add adds the chunk's rows to the sums of the parts that they are of.
func (b *linearBias) add(z graph.Buffer) {
	if b == nil {
		return
	}
	for from := b.first; from < b.first+b.rows; {
		part := from / b.each
		to := min(b.first+b.rows, (part+1)*b.each)
		n := to - from
		rows := scratch(z.At+int64(4*(from-b.first)*b.classes), int64(4*n*b.classes), false)
		sums := scratch(b.at+int64(4*part*b.stride), int64(4*b.classes), true)
		loweredReduction{goesOn: from > part*b.each}.dispatch(b.l, rows, sums, ofRows(n, b.classes, b.classes), 0, b.classes, 0, 1, 0, 1)
		from = to
	}
}

func (b *linearBias) finish() {
	if b == nil {
		return
	}
	loweredReduction{}.dispatch(b.l, scratch(b.at, b.bytes(), false), writes(2), ofRows(b.parts, b.classes, b.stride), 0, b.classes, 0, 1, 0, 1)
}
