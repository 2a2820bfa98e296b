package quantize

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Range is the least and the greatest value that a tensor is taken to have.
type Range struct{ Low, High float32 }

// Calibration says how the values that a model computes on sample data become ranges, as ONNX
// Runtime's calibrators do.
type Calibration struct {
	Method string // minmax, entropy or percentile
	// Symmetric makes ranges symmetric around zero. Nil: those of percentiles are.
	Symmetric  *bool
	Percentile float64 // of values inside the range
	Moving     bool    // average the extremes of batches, not take the extremes of all
	Average    float64 // weight of a later group of batches in that average
}

// Bins of histograms.
const (
	entropyBins    = 128
	quantizedBins  = 128
	percentileBins = 2048
	mostBins       = 1 << 15 // finding a range takes the square of their number
)

// Ranges runs over groups of batches. each runs the model on the batches of a group, and calls see
// with every value of each; it is called twice for a group if the method counts values in bins.
func (c *Calibration) Ranges(groups int, each func(group int, see func(name string, x []float32)) error) (map[string]Range, error) {
	sums := map[string]*histogram{}
	ranges := map[string]Range{}
	for group := range groups {
		seen := map[string]*extremes{}
		err := each(group, func(name string, x []float32) {
			if seen[name] == nil {
				seen[name] = &extremes{least: float32(math.Inf(1))}
			}
			seen[name].see(x)
		})
		if err != nil {
			return nil, err
		}
		if len(seen) == 0 {
			return nil, errors.New("the calibration data is empty")
		}
		if c.Method == "minmax" {
			for name, e := range seen {
				now := c.minmax(e)
				if old, is := ranges[name]; is {
					now = c.merged(old, now)
				}
				ranges[name] = now
			}
			continue
		}
		bins := map[string]*histogram{}
		for name, e := range seen {
			if bins[name], err = c.bins(name, sums[name], e); err != nil {
				return nil, err
			}
		}
		if err := each(group, func(name string, x []float32) { bins[name].see(x) }); err != nil {
			return nil, err
		}
		for name, h := range bins {
			h.merge(sums[name])
			sums[name] = h
		}
	}
	for name, h := range sums {
		if c.Method == "entropy" {
			ranges[name] = h.entropy()
		} else {
			ranges[name] = h.percentile(c.Percentile, c.symmetric())
		}
	}
	return ranges, nil
}

func (c *Calibration) symmetric() bool {
	if c.Symmetric != nil {
		return *c.Symmetric
	}
	return c.Method == "percentile"
}

// extremes are those of a tensor in a group of batches. NaNs do not count, and infinities, as in masks,
// neither: integers saturate there.
type extremes struct {
	lows, highs []float32 // by batch
	least       float32   // absolute value
}

func (e *extremes) see(x []float32) {
	low, high := float32(0), float32(0)
	first := true
	for _, v := range x {
		if v-v != 0 {
			continue
		}
		e.least = min(e.least, max(v, -v))
		if first {
			low, high, first = v, v, false
			continue
		}
		low, high = min(low, v), max(high, v)
	}
	if !first {
		e.lows, e.highs = append(e.lows, low), append(e.highs, high)
	}
}

// ends are the extremes of all batches; zeros if there was no number.
func (e *extremes) ends() (low, high float32) {
	if len(e.lows) == 0 {
		return 0, 0
	}
	return slices.Min(e.lows), slices.Max(e.highs)
}

func (c *Calibration) minmax(e *extremes) Range {
	r := Range{}
	r.Low, r.High = e.ends()
	if c.Moving && len(e.lows) > 0 {
		n := float32(len(e.lows))
		r = Range{sum(e.lows) / n, sum(e.highs) / n}
	}
	if c.symmetric() {
		most := max(abs(r.Low), abs(r.High))
		r = Range{-most, most}
	}
	return r
}

// merged is the range of two groups, the earlier one first.
func (c *Calibration) merged(old, now Range) Range {
	if !c.Moving {
		return Range{min(old.Low, now.Low), max(old.High, now.High)}
	}
	a := float32(c.Average)
	return Range{old.Low + a*(now.Low-old.Low), old.High + a*(now.High-old.High)}
}

func abs(x float32) float32 { return max(x, -x) }

// sum adds float32s in the order in which NumPy does: with eight accumulators, halves of long rows
// by themselves.
func sum(x []float32) float32 {
	n := len(x)
	if n < 8 {
		var s float32
		for _, v := range x {
			s += v
		}
		return s
	}
	if n > 128 {
		half := n / 2
		half -= half % 8
		return sum(x[:half]) + sum(x[half:])
	}
	r := [8]float32(x[:8])
	i := 8
	for ; i < n-n%8; i += 8 {
		for k := range r {
			r[k] += x[i+k]
		}
	}
	s := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		s += x[i]
	}
	return s
}

// histogram counts values in bins, the last of which includes its upper edge.
type histogram struct {
	edges     []float32
	counts    []int64
	low, high float32
	threshold float32 // of bins around zero
	absolute  bool    // counts absolute values
	// What merge adds to: where the bins of an earlier group begin.
	shift int
}

// bins is the empty histogram of a group of batches, whose bins include those of the earlier groups.
func (c *Calibration) bins(name string, old *histogram, e *extremes) (*histogram, error) {
	h := &histogram{absolute: c.Method == "percentile" && c.symmetric()}
	h.low, h.high = e.ends()
	h.threshold = max(abs(h.low), abs(h.high))
	n := percentileBins
	if c.Method == "entropy" {
		n = entropyBins
	}
	switch {
	case h.absolute && old == nil:
		least := e.least
		if len(e.lows) == 0 {
			least = 0
		}
		h.edges = spaced(least, h.threshold, n)
	case h.absolute:
		h.edges = old.edges
		if last := h.edges[len(h.edges)-1]; h.threshold > last {
			width := h.edges[1] - h.edges[0]
			start, stop := last+width, h.threshold+width
			delta := start + width - start
			n := math.Ceil(float64((stop - start) / width))
			if !(n < mostBins) {
				return nil, tooFar(name)
			}
			for i := range int(n) {
				h.edges = append(slices.Clip(h.edges), start+float32(i)*delta)
			}
		}
	case old == nil:
		h.edges = spaced(-h.threshold, h.threshold, n)
	case h.threshold <= old.threshold:
		h.threshold, h.edges = old.threshold, old.edges
	case old.threshold == 0:
		h.edges = spaced(-h.threshold, h.threshold, len(old.counts))
	default:
		stride := 2 * old.threshold / float32(len(old.counts))
		shift := math.Floor(float64((h.threshold-old.threshold)/stride)) + 1
		if !(shift < mostBins) {
			return nil, tooFar(name)
		}
		h.shift = int(shift)
		h.threshold = float32(h.shift)*stride + old.threshold
		h.edges = spaced(-h.threshold, h.threshold, len(old.counts)+2*h.shift)
	}
	h.counts = make([]int64, len(h.edges)-1)
	return h, nil
}

func tooFar(name string) error {
	return fmt.Errorf("%s has values of too different size in the strides of the calibration data; take longer strides, or minmax", name)
}

// spaced is the edges of n bins of one width.
func spaced(low, high float32, n int) []float32 {
	if low == high {
		low, high = low-0.5, high+0.5
	}
	edges := make([]float32, n+1)
	step := (high - low) / float32(n)
	for i := range edges {
		edges[i] = float32(i)*step + low
	}
	edges[n] = high
	return edges
}

func (h *histogram) see(x []float32) {
	last := len(h.edges) - 1
	for _, v := range x {
		if h.absolute {
			v = abs(v)
		}
		if !(v >= h.edges[0] && v <= h.edges[last]) {
			continue
		}
		i := sort.Search(last, func(i int) bool { return h.edges[i+1] > v })
		h.counts[min(i, last-1)]++
	}
}

// merge adds the counts of the earlier groups.
func (h *histogram) merge(old *histogram) {
	if old == nil {
		return
	}
	for i, n := range old.counts {
		h.counts[h.shift+i] += n
	}
	h.low, h.high = min(h.low, old.low), max(h.high, old.high)
}

// within limits a range to values that occurred.
func (h *histogram) within(r Range) Range { return Range{max(r.Low, h.low), min(r.High, h.high)} }

// percentile is the range that leaves out the outermost values, at both ends together.
func (h *histogram) percentile(p float64, symmetric bool) Range {
	total := int64(0)
	for _, n := range h.counts {
		total += n
	}
	shares := make([]float64, len(h.counts))
	at := 0.0
	for i, n := range h.counts {
		at += float64(n) / float64(total)
		shares[i] = at
	}
	edge := func(share float64) float32 { return h.edges[sort.SearchFloat64s(shares, share)] }
	if symmetric {
		e := edge(p / 100)
		return h.within(Range{-e, e})
	}
	cut := (100 - p) / 200
	return h.within(Range{edge(cut), edge(1 - cut)})
}

// entropy is the range around zero whose values, rounded to a few bins, differ least from all
// values.
func (h *histogram) entropy() Range {
	n := len(h.counts)
	zero, half := n/2, quantizedBins/2
	best, least := Range{}, math.Inf(1)
	for i := half; i <= zero; i++ {
		start, end := zero-i, min(zero+i+1, n)
		if d := h.divergence(start, end); i == half || d < least {
			best, least = Range{h.edges[start], h.edges[end]}, d
		}
	}
	return h.within(best)
}

// divergence is the relative entropy of the values, outliers moved into the outermost bins, and of
// those of the bins from start to end, rounded.
func (h *histogram) divergence(start, end int) float64 {
	inside := h.counts[start:end]
	p := slices.Clone(inside)
	for _, n := range h.counts[:start] {
		p[0] += n
	}
	for _, n := range h.counts[end:] {
		p[len(p)-1] += n
	}
	q := make([]int64, len(p))
	merged := len(inside) / quantizedBins
	for k := range quantizedBins {
		from, to := k*merged, (k+1)*merged
		all, some := int64(0), int64(0)
		for i := from; i < to; i++ {
			all += inside[i]
			if p[i] != 0 {
				some++
			}
		}
		if k == quantizedBins-1 {
			for _, n := range inside[to:] {
				all += n
			}
		}
		if some != 0 {
			for i := from; i < to; i++ {
				q[i] = int64(float64(all) / float64(some))
			}
		}
	}
	a, b := smoothed(p), smoothed(q)
	if a == nil || b == nil {
		return math.Inf(1)
	}
	sa, sb := sum(a), sum(b)
	terms := make([]float32, len(a))
	for i := range a {
		x, y := a[i]/sa, b[i]/sb
		terms[i] = x * float32(math.Log(float64(x/y)))
	}
	return float64(sum(terms))
}

// smoothed moves a little from the bins that have counts to those that have none; nil if no bin has.
func smoothed(counts []int64) []float32 {
	const eps = 0.0001
	empty := 0
	for _, n := range counts {
		if n == 0 {
			empty++
		}
	}
	if empty == len(counts) {
		return nil
	}
	less := eps * float64(empty) / float64(len(counts)-empty)
	out := make([]float32, len(counts))
	for i, n := range counts {
		if n == 0 {
			out[i] = eps
		} else {
			out[i] = float32(n) + float32(-less)
		}
	}
	return out
}
