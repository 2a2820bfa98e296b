package lower

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// Convolutions as matrix products whose second factor is never stored, for devices whose
// workgroups share fast memory (producttiled.comp, CONV): a workgroup gathers the image's
// elements as it needs them. All sides are one product. A is the filters and a column of
// B is a place: of y in the forward pass, of one phase of the strides of x in its gradient,
// where the image is dy. In the filters' gradient A is dy, a column of B is a tap, and the sum
// runs over all places of all samples; few large filters leave most of a GPU idle, so the sum
// is split, and a second pass adds the parts in order.

// implicit is one such product.
type implicit struct {
	c       *Convolution
	taps    bool // columns are places and terms are taps, not the reverse
	m, n, k int
	// A: from a row to the next, from a channel or sample to the next, and from a tap of an axis to the next.
	ai, ac               int
	fromA, fromY         int
	tapA                 [3]int
	groupA, groupB       int
	groupY, ldy          int
	image                int // elements of a sample of B
	sampleY              int // of Y, or of A where terms are places
	alongY               [3]int
	size, places, kernel [3]int // of the image; of places and taps by axis
	tap, place           [3]int // from a tap or place to the next, in the image
	shift                [3]int // of the first tap of the first place
}

// implicitOut is y from x and the filters.
func (c *Convolution) implicitOut() implicit {
	outs, taps, ins := f32.Volume(c.Out), f32.Volume(c.Kernel), f32.Volume(c.In)
	g := implicit{
		c: c, taps: true, m: c.Outer, n: outs, k: c.Inner * taps,
		ai: c.Inner * taps, ac: taps, tapA: [3]int{c.Kernel[1] * c.Kernel[2], c.Kernel[2], 1},
		groupA: c.Outer * c.Inner * taps, groupB: c.Inner * ins, groupY: c.Outer * outs, ldy: outs,
		image: c.Group * c.Inner * ins, sampleY: c.Group * c.Outer * outs, alongY: [3]int{c.Out[1] * c.Out[2], c.Out[2], 1},
		size: c.In, places: c.Out, kernel: c.Kernel, tap: c.Dilation, place: c.Stride,
	}
	for d := range g.shift {
		g.shift[d] = -c.Pad[d]
	}
	return g
}

// implicitFilters is the filters' gradient from x and y.
func (c *Convolution) implicitFilters() implicit {
	g := c.implicitOut()
	outs, columns := f32.Volume(c.Out), c.Inner*f32.Volume(c.Kernel)
	g.taps, g.m, g.n, g.k = false, c.Outer, columns, outs
	g.ai, g.ac, g.groupA = outs, g.sampleY, c.Outer*outs
	g.groupY, g.ldy = c.Outer*columns, columns
	return g
}

// implicitPhase is the positions of x at one phase of each stride, from y and the filters.
func (c *Convolution) implicitPhase(phase [3]int) implicit {
	var size, first, apart [3]int
	g := implicit{c: c, taps: true}
	for d := range size {
		var t axisTaps
		size[d], first[d], apart[d], t = c.phaseTaps(d, phase[d])
		g.kernel[d], g.place[d], g.tap[d], g.shift[d] = t.n, t.step, t.dilation, t.shift
	}
	ins, taps, outs := f32.Volume(c.In), f32.Volume(c.Kernel), f32.Volume(c.Out)
	g.m, g.n, g.k = c.Inner, f32.Volume(size), c.Outer*f32.Volume(g.kernel)
	g.ai, g.ac = taps, c.Inner*taps
	g.tapA = [3]int{apart[0] * c.Kernel[1] * c.Kernel[2], apart[1] * c.Kernel[2], apart[2]}
	g.fromA = (first[0]*c.Kernel[1]+first[1])*c.Kernel[2] + first[2]
	g.groupA, g.groupB, g.groupY, g.ldy = c.Outer*c.Inner*taps, c.Outer*outs, c.Inner*ins, ins
	g.image, g.sampleY = c.Group*c.Outer*outs, c.Group*c.Inner*ins
	g.alongY = [3]int{c.Stride[0] * c.In[1] * c.In[2], c.Stride[1] * c.In[2], c.Stride[2]}
	g.fromY = (phase[0]*c.In[1]+phase[1])*c.In[2] + phase[2]
	g.size, g.places = c.Out, size
	return g
}

// inside reports whether every tap of every place is in the image.
func (g implicit) inside() bool {
	for d := range g.size {
		far := g.tap[d] * max(0, g.kernel[d]-1)
		if g.shift[d]+min(0, far) < 0 || g.shift[d]+(g.places[d]-1)*g.place[d]+max(0, far) >= g.size[d] {
			return false
		}
	}
	return true
}

// divisor is the factor by which producttiled.comp divides numbers below 2³¹ by d.
func divisor(d int) uint32 {
	shift := 31
	for 1<<(shift-31) < d {
		shift++
	}
	return uint32((uint64(1)<<shift + uint64(d) - 1) / uint64(d))
}

// directVariant is the variant of conv.comp, which sums forward and by x in the same order.
const directVariant = "direct"

// appendImplicit computes one side as implicit products and reports whether it did: not if the direct kernel is
// expected or known to be faster, or if the device takes too few workgroups.
func (c *Convolution) appendImplicit(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int) bool {
	var parts []implicit
	filters, image := b, a
	switch side {
	case ConvOut:
		parts = append(parts, c.implicitOut())
	case ConvFilters:
		parts = append(parts, c.implicitFilters())
	default:
		for p := range f32.Volume(c.Stride) {
			g := c.implicitPhase([3]int{p / c.Stride[2] / c.Stride[1], p / c.Stride[2] % c.Stride[1], p % c.Stride[2]})
			if g.n > 0 {
				parts = append(parts, g)
			}
		}
	}
	widest := parts[0]
	each := SamplesAtOnce(l, c.N, widest.image, widest.sampleY)
	columns, split := widest.n, 1
	if side == ConvFilters {
		each = min(each, max(1, (1<<31-1)/max(1, widest.k)))
		if each == c.N {
			split = c.filterParts(l, out, image, filters)
		}
	} else {
		columns *= c.N
	}
	var tile productTile
	if of, ok := gathersCooperate(l, a, b); ok {
		tile = gathersByMatrices(l, of, "convolution "+sideNames[side], widest.m, columns, widest.k, c.Group*split)
	} else {
		ok := false
		if tile, ok = c.pickTile(l, widest, side, columns, split); !ok {
			return false
		}
	}
	if side != ConvFilters {
		each = min(each, max(1, min(1<<31-1, l.Limits.Groups[0]*tile.columns)/max(1, widest.n)))
	}
	for _, g := range parts {
		columns := g.n
		if g.taps {
			columns *= each
		}
		if index.CeilDiv(g.m, tile.rows) > l.Limits.Groups[1] || index.CeilDiv(columns, tile.columns)*split > l.Limits.Groups[0] {
			return false
		}
	}
	for _, g := range parts {
		for first := 0; first < c.N; first += each {
			g.append(l, tile, first, min(each, c.N-first), out, filters, image, bias, split)
		}
	}
	return true
}

// sideNames names the sides of a convolution in classes of kernels.
var sideNames = [...]string{"y", "x", "w"}

// pickTile picks the tile of a side's products; ok is false if the direct kernel is expected or known to be faster.
func (c *Convolution) pickTile(l *graph.Lowering, widest implicit, side uint32, columns, split int) (tile productTile, ok bool) {
	tiles := tilesFor(l, widest.m, columns, c.Group*split)
	variants := tileNames(tiles)
	if side != ConvFilters {
		// A tile of a few rows is mostly empty, and then the direct kernel is expected to be faster.
		if widest.m < convTile/2 {
			variants = slices.Insert(variants, 0, directVariant)
		} else {
			variants = append(variants, directVariant)
		}
	}
	class := fmt.Sprintf("convolution %s %d×%d×%d×%d", sideNames[side], SizeClass(widest.m), SizeClass(columns), SizeClass(widest.k), SizeClass(c.Group*split))
	name := l.Pick(class, variants...)
	if name == directVariant {
		return tile, false
	}
	return tiles[slices.IndexFunc(tiles, func(t productTile) bool { return t.name == name })], true
}

// Parts of the sum of the filters' gradient: enough for partsOfTiles workgroups of the widest used
// tile, none with fewer terms than partTerms.
const (
	partTile     = 64
	partsOfTiles = 2 * BusyGroups
	partTerms    = 512
)

// filterParts is how many parts the sum of the filters' gradient is split into. It depends on shapes alone, as
// the order of the sum does: on the work space that plans reserve for this side.
func (c *Convolution) filterParts(l *graph.Lowering, out int, x, y graph.Buffer) int {
	p := l.With(l.In, l.Out)
	p.Limits = graph.PlanLimits
	c.Append(p, ConvFilters, out, x, y, -1)
	columns := c.Inner * f32.Volume(c.Kernel)
	tiles := index.CeilDiv(c.Outer, partTile) * index.CeilDiv(columns, partTile) * c.Group
	bytes := int64(4 * c.Group * c.Outer * columns)
	parts := min(index.CeilDiv(partsOfTiles, tiles), c.N*f32.Volume(c.Out)/partTerms, int(min(p.Scratch, reduceBytes)/max(1, bytes)))
	return max(1, parts)
}

// append appends the product for some samples.
func (g implicit) append(l *graph.Lowering, tile productTile, first, samples, out int, filters, image graph.Buffer, bias, split int) {
	c, to := g.c, Writes(out)
	b, beforeB := SamplesOf(l, image, c.N, g.image, first, samples)
	fromA, fromB, fromY := g.fromA, first*g.image-beforeB, g.fromY
	added, adds, part, partY := Unused(false), uint32(0), 0, 0
	if bias >= 0 {
		added, adds = Reads(bias), 1
	}
	if g.taps {
		g.n *= samples
		var before int
		to, before = SamplesOf(l, to, c.N, g.sampleY, first, samples)
		fromY += first*g.sampleY - before
		part = g.k
	} else {
		g.k *= samples
		var before int
		filters, before = SamplesOf(l, filters, c.N, g.sampleY, first, samples)
		fromA += first*g.sampleY - before
		if first > 0 {
			added, adds = Rereads(out), 2
		}
		// Parts end where slabs end, so that all tiles sum alike.
		const longest = 16
		part = index.CeilDiv(index.CeilDiv(g.k, split), longest) * longest
		if split = index.CeilDiv(g.k, max(1, part)); split > 1 {
			partY = c.Group * g.groupY
			to = Scratch(0, int64(4*split*partY), true)
			l.Scratch = max(l.Scratch, to.Bytes)
		}
	}
	split = max(1, split)
	if !g.taps && split == 1 {
		part = g.k
	}
	whole := tile.whole(g.m, g.n, g.k)
	axes := func(of [3]int, least int) (all []uint32) {
		for _, x := range of {
			all = append(all, uint32(int32(max(x, least))))
		}
		return all
	}
	spec := slices.Concat([]uint32{adds, whole, OneIf(g.taps), OneIf(g.inside())}, axes(g.kernel, 1), Triples(g.tap, g.place), axes(g.tapA, 0))
	spec = append(spec, tile.spec...)
	for group := 0; group < c.Group; group += l.Limits.Groups[2] {
		groups := min(l.Limits.Groups[2], c.Group-group)
		push := Words(l, g.m, g.n, g.k, part, g.ai, g.ac, fromA+group*g.groupA, fromB+group*g.groupB, fromY+group*g.groupY, g.groupA, g.groupB, g.groupY)
		push = append(push, Words(l, slices.Concat(g.size[:], g.places[:])...)...)
		for _, n := range g.places {
			push = append(push, divisor(n))
		}
		push = append(push, Triples(g.shift)...)
		push = append(push, Words(l, g.image, g.ldy, g.sampleY, g.alongY[0], g.alongY[1], g.alongY[2], partY, group*g.m)...)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: tile.gathers, Spec: spec, Push: push, Buffers: []graph.Buffer{to, filters, b, added},
			Groups: [3]int{index.CeilDiv(g.n, tile.columns) * split, index.CeilDiv(g.m, tile.rows), groups},
		})
	}
	if split > 1 {
		Reduction{Fold: FoldSum}.Append(l, Unwritten(to), []int{split, partY}, []int{0}, Writes(out))
	}
}
