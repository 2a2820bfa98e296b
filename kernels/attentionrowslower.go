package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// On a device that runs kernels, attention in rows is what its pieces are: the same
// products, masks and softmax, for some matrices of the batch at a time and all their
// queries. So all its numbers have the bits of the pieces, and the scores of those
// matrices alone are in work space.

// rowsBytes is how many bytes of scores are worked on at one time, if a matrix has not
// more: fewer make launches that keep no device busy.
const rowsBytes = 1 << 20

// rowsMask takes what a mask lets through, and p elsewhere.
const rowsMask = "a != 0 ? b : p"

var rowsMaskForm = func() *pointwiseForm {
	form := formOf(graph.Float32, graph.Bool, graph.Float32, graph.Float32)
	form.exprs = append(form.exprs, rowsMask)
	return form
}()

// loweredRowsOf is a node of either operator, with the matrices that are worked on.
type loweredRowsOf struct {
	*flash
	l         *graph.Lowering
	at        int   // input Q
	scores    int64 // bytes of those of a part
	room      int64 // where the mask of a part is copied to
	first, n  int   // the part: matrices from one on
	fromBias  int
	fromMask  int
	anewBatch bool // the mask differs by matrices
}

func lowerRows(l *graph.Lowering) {
	inRows(l, 0, 1, func(r *loweredRowsOf) {
		p := r.probable()
		r.product(r.queries, r.out, r.keys, r.of(p, r.keys, 1), r.from(2, r.keys, r.out, 1, r.out), writes(0), 1)
	})
}

func lowerRowsGrad(l *graph.Lowering) {
	inRows(l, 1, 2, func(r *loweredRowsOf) {
		p := r.probable()
		ds := scratch(r.scores, r.scores, true)
		dy := func(outside, along int) factor { return r.from(-1, r.queries, r.out, outside, along) }
		r.product(r.queries, r.keys, r.out, dy(r.out, 1), r.from(2, r.keys, r.out, r.out, 1), ds, 1)
		lowerLinesInto(l, ds, rowSoftmaxGrad, r.n*r.queries, r.keys, 1, unwritten(ds), p)
		r.hide(ds, 0)
		ds = unwritten(ds)
		byKey, byWidth := r.strideK()
		r.product(r.queries, r.width, r.keys, r.of(ds, r.keys, 1), r.from(1, r.keys, r.width, byWidth, byKey), writes(0), r.scale)
		q := r.from(0, r.queries, r.width, 1, r.width)
		if r.transK {
			r.overQueries(r.width, r.keys, q, r.of(ds, 1, r.keys), writes(1), r.scale)
		} else {
			r.overQueries(r.keys, r.width, r.of(ds, 1, r.keys), q, writes(1), r.scale)
		}
		r.overQueries(r.keys, r.out, r.of(p, 1, r.keys), dy(1, r.out), writes(2), 1)
	})
}

// inRows calls do for each part of the batch. Matrices of a part are neighbours in the
// innermost dim of the batch, so that a bias has one stride over them; if matrices share
// their keys, it is all of those that do. There is room for as many tensors of their
// scores.
func inRows(l *graph.Lowering, at int, tensors int64, do func(r *loweredRowsOf)) {
	if !onlyTypes(l, append(slices.Repeat([]graph.DType{graph.Float32}, at+4), graph.Bool), []graph.DType{graph.Float32}) {
		return
	}
	r := &loweredRowsOf{flash: newRows(loweredCall(l), at), l: l, at: at}
	if r.batch*r.queries*r.keys == 0 {
		for i := range l.Out {
			lowerFill(l, i, 0)
		}
		return
	}
	matrix, rank := 4*r.queries*r.keys, len(r.shape)
	inner := r.batch
	if rank > 3 {
		inner = r.shape[rank-3]
	}
	each := min(inner, max(1, rowsBytes/matrix))
	r.scores = aligned(int64(each * matrix))
	r.room = tensors * r.scores
	l.Scratch = r.room
	for _, s := range r.maskAt[:max(0, len(r.maskAt)-2)] {
		r.anewBatch = r.anewBatch || s != 0
	}
	if r.anewBatch {
		l.Scratch += aligned(int64(each * matrix / 4))
	}
	for outer := 0; outer < r.batch; outer += inner {
		for h := 0; h < inner && l.Refused == ""; h += each {
			r.first, r.n = outer+h, min(each, inner-h)
			r.fromBias, r.fromMask = placeOf(r.shape[:rank-2], r.biasAt, r.first), placeOf(r.shape[:rank-2], r.maskAt, r.first)
			do(r)
		}
	}
}

// placeOf is where an item of a batch lies in what has strides under it; 0 if there is
// nothing.
func placeOf(shape, strides []int, item int) (at int) {
	if strides == nil {
		return 0
	}
	for i := len(shape) - 1; i >= 0; i-- {
		at += item % shape[i] * strides[i]
		item /= shape[i]
	}
	return at
}

// overPart is the stride of a bias or mask from matrix to matrix of a part.
func overPart(strides []int) int {
	if len(strides) < 3 {
		return 0
	}
	return strides[len(strides)-3]
}

// from is the matrices of an input of so many rows and columns; 0 is Q.
func (r *loweredRowsOf) from(input, rows, columns, outside, along int) factor {
	return factor{reads(r.at + input), rows * columns, outside, along}
}

// of is matrices of scores.
func (r *loweredRowsOf) of(scores graph.Buffer, outside, along int) factor {
	return factor{scores, r.queries * r.keys, outside, along}
}

// strideK is how far keys are apart in K, and their elements.
func (r *loweredRowsOf) strideK() (key, element int) {
	if r.transK {
		return 1, r.keys
	}
	return r.width, 1
}

// product appends alpha times products of the part's matrices.
func (r *loweredRowsOf) product(m, n, k int, a, b factor, y graph.Buffer, alpha float64) {
	r.appendProduct(productOf(m, n, k, r.n, a, b, y, m*n), alpha)
}

// overQueries appends alpha times products that sum over queries: of all matrices of the
// part, if these share their keys, added to what parts before it made.
func (r *loweredRowsOf) overQueries(m, n int, a, b factor, y graph.Buffer, alpha float64) {
	if r.share == 1 {
		r.product(m, n, r.queries, a, b, y, alpha)
		return
	}
	x := productOf(m, n, r.n*r.queries, 1, a, b, y, m*n)
	if r.first%r.share > 0 {
		x.biased, x.beta, x.c, x.ci, x.cj = true, 1, unwritten(y), n, 1
		x.fromC = r.show(&x.c, m*n)
	}
	r.appendProduct(x, alpha)
}

// appendProduct finds the part's matrices in what holds those of all.
func (r *loweredRowsOf) appendProduct(x loweredProduct, alpha float64) {
	shared := r.isShared(x.b) // never A
	x.alpha, x.fromA, x.fromB, x.fromY = alpha, r.show(&x.a, x.sa[0]), r.show(&x.b, x.sb[0]), r.show(&x.y, x.step)
	if shared {
		x.sb[0] = 0
	}
	if !x.biased {
		x.c = x.b
	}
	x.whole(r.l)
}

// isShared reports whether a buffer has one matrix for all of the part: keys and values,
// or their gradients.
func (r *loweredRowsOf) isShared(b graph.Buffer) bool {
	switch b.Place {
	case graph.PlaceIn:
		return r.share > 1 && (b.Index == r.at+1 || b.Index == r.at+2)
	case graph.PlaceOut:
		return r.share > 1 && b.Index > 0
	}
	return false
}

// show shows the part's matrices, of so many elements each, of a buffer that holds those
// of all, and says where they begin there.
func (r *loweredRowsOf) show(b *graph.Buffer, size int) (from int) {
	switch {
	case b.Place == graph.PlaceScratch:
		return 0
	case r.isShared(*b):
		matrix := r.first / r.share
		return showFloats(b, matrix*size, (matrix+1)*size)
	}
	return showFloats(b, r.first*size, (r.first+r.n)*size)
}

// showFloats shows elements [begin, end) of a buffer, from a place on where a device lets
// one begin, and says how far in front of begin that is.
func showFloats(b *graph.Buffer, begin, end int) (from int) {
	before := begin / pieceStep * pieceStep
	b.At, b.Bytes = int64(4*before), int64(4*(end-before))
	return begin - before
}

// probable appends the part's probabilities and says where they are.
func (r *loweredRowsOf) probable() graph.Buffer {
	s := scratch(0, r.scores, true)
	key, element := r.strideK()
	x := productOf(r.queries, r.keys, r.width, r.n, r.from(0, r.queries, r.width, r.width, 1), r.from(1, r.keys, r.width, key, element), s, r.queries*r.keys)
	if r.bias != nil {
		rank, step := len(r.biasAt), overPart(r.biasAt)
		x.c, x.biased, x.beta, x.ci, x.cj, x.cStep = reads(r.at+3), true, 1, r.biasAt[rank-2], r.biasAt[rank-1], step
		x.fromC = showFloats(&x.c, r.fromBias, r.fromBias+(r.n-1)*step+(r.queries-1)*x.ci+(r.keys-1)*x.cj+1)
	}
	r.appendProduct(x, r.scale)
	r.hide(s, r.fill)
	rule := uint32(rowSoftmax)
	if r.safe {
		rule = rowSafeSoftmax
	}
	lowerLinesInto(r.l, s, rule, r.n*r.queries, r.keys, 1, unwritten(s), unused(false))
	return unwritten(s)
}

// hide fills in what the mask and the band hide of the part's scores.
func (r *loweredRowsOf) hide(s graph.Buffer, fill float64) {
	if r.mask != nil {
		scores := &graph.Operand{Type: graph.Float32, Shape: []int{r.n, r.queries, r.keys}}
		mask, seen := r.maskOfPart()
		rowsMaskForm.append(r.l, rowsMask, scores, []*graph.Operand{mask, scores}, []graph.Buffer{s, seen, unwritten(s)}, fill)
	}
	if r.left >= 0 || r.right >= 0 {
		w := band{rows: r.n * r.queries, width: r.keys, queries: r.queries, each: 1, left: r.left, right: r.right}
		w.append(r.l, fill, 0, s, unwritten(s), unused(false))
	}
}

// maskOfPart is the part's mask: where it lies if all matrices have one, else a copy,
// for kernels see buffers from multiples of bytes on.
func (r *loweredRowsOf) maskOfPart() (*graph.Operand, graph.Buffer) {
	rank := len(r.maskAt)
	if !r.anewBatch {
		last := r.mask.Shape[max(0, len(r.mask.Shape)-2):]
		return &graph.Operand{Type: graph.Bool, Shape: last}, reads(r.at + 4)
	}
	copied := scratch(r.room, int64(r.n*r.queries*r.keys), true)
	lowerBox(r.l, 1, []graph.Buffer{copied, reads(r.at + 4)}, nil, []int{r.n, r.queries, r.keys},
		[]int{overPart(r.maskAt), r.maskAt[rank-2], r.maskAt[rank-1]}, []int{r.queries * r.keys, r.keys, 1}, r.fromMask, 0)
	return &graph.Operand{Type: graph.Bool, Shape: []int{r.n, r.queries, r.keys}}, unwritten(copied)
}
