package planner

import (
	"slices"

	"memopt/memopt/graph"
)

// line is how formulas go along one dim, the others being numbers. Every product is a number times a kind.
type line struct {
	t     *terms
	b     *graph.Binding
	dim   string
	kinds []kind
	kind  []int             // by product; −1 where it is no number times anything that grows
	times []int64           // by product
	known map[int64][]int64 // what kinds are, by size
}

// kind is what a product is of a dim: a power, times steps, which are what cannot be written as one but is at least 0
// and never falls as the dim grows, as a division by a number is.
type kind struct {
	pow   int
	steps []power
}

// curve is a formula along a line: a coefficient for each kind. The first is that of what does not depend on the dim.
type curve []int64

func (t *terms) along(dim string, b *graph.Binding) *line {
	l := &line{t: t, b: b, dim: dim, kinds: []kind{{}}, known: map[int64][]int64{}}
	for _, p := range t.products {
		k, times, ok := l.split(p)
		at := slices.IndexFunc(l.kinds, func(x kind) bool { return x.pow == k.pow && slices.Equal(x.steps, k.steps) })
		if at < 0 && ok {
			at, l.kinds = len(l.kinds), append(l.kinds, k)
		}
		if !ok {
			at = -1
		}
		l.kind, l.times = append(l.kind, at), append(l.times, times)
	}
	return l
}

// split is a product as a number and a kind.
func (l *line) split(p product) (k kind, number int64, ok bool) {
	number, ok = 1, true
	for _, f := range p.factors {
		switch x := l.t.bases[f.base]; {
		case x.name == l.dim:
			k.pow += f.pow
		case x.dim.Uses(l.dim):
			k.steps = append(k.steps, f)
			ok = ok && x.least && x.dim.Grows(l.dim)
		default:
			n, err := l.b.Eval(x.dim)
			for range f.pow {
				fits := false
				number, fits = times(number, n)
				ok = ok && fits && err == nil
			}
		}
	}
	return k, number, ok
}

// curve is p along the line; ok is false where it is none, or where a number leaves 64 bits.
func (l *line) curve(p polynomial) (c curve, ok bool) {
	for i, k := range p {
		if k == 0 {
			continue
		}
		at := l.kind[i]
		if at < 0 {
			return nil, false
		}
		k, fits := times(k, l.times[i])
		if !fits {
			return nil, false
		}
		for len(c) <= at {
			c = append(c, 0)
		}
		c[at] += k
	}
	return c, true
}

// moves reports whether the curve depends on the dim.
func (c curve) moves() bool {
	return len(c) > 1 && slices.ContainsFunc(c[1:], func(k int64) bool { return k != 0 })
}

// at is the curve at x ≥ 1; ok is false where it leaves 64 bits.
func (l *line) at(c curve, x int64) (sum int64, ok bool) { return l.between(c, x, x) }

// between is a bound that the curve does not exceed from lo to hi: the terms that grow at the end, the others at the
// beginning.
func (l *line) between(c curve, lo, hi int64) (sum int64, ok bool) {
	low, high := l.values(lo), l.values(hi)
	for i, k := range c {
		if k == 0 {
			continue
		}
		x := high[i]
		if k < 0 {
			x = low[i]
		}
		y, fits := times(k, x)
		if sum += y; !fits || sum >= most || sum <= -most {
			return most, false
		}
	}
	return sum, true
}

// values is what kinds are at a size; what leaves 64 bits is most.
func (l *line) values(x int64) []int64 {
	if v, ok := l.known[x]; ok {
		return v
	}
	v := make([]int64, len(l.kinds))
	for i, k := range l.kinds {
		v[i] = 1
		grow := func(by int64, pow int) {
			for range pow {
				v[i], _ = times(v[i], by)
			}
		}
		grow(x, k.pow)
		for _, f := range k.steps {
			grow(l.step(f.base, x), f.pow)
		}
	}
	l.known[x] = v
	return v
}

// step is what cannot be written as a power, at a size.
func (l *line) step(base int, x int64) (n int64) {
	err := graph.Try(func() {
		var wrong error
		if n, wrong = l.b.Eval(l.t.bases[base].dim.Subst(map[string]graph.Dim{l.dim: graph.Num(x)})); wrong != nil {
			n = most
		}
	})
	if err != nil {
		return most
	}
	return n
}

// minus is c − d.
func (c curve) minus(d curve) curve {
	out := slices.Clone(c)
	for len(out) < len(d) {
		out = append(out, 0)
	}
	for i, k := range d {
		out[i] -= k
	}
	return out
}

// fits is the largest size up to which a curve stays within 64 bits.
func (l *line) fits(c curve, at, to int64) int64 {
	lo, hi := at, to
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if _, ok := l.at(c, mid); ok {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// stays is the sizes around at over which a curve stays 0.
func (l *line) stays(c curve, at, from, to int64) (int64, int64) {
	if !c.moves() {
		return from, to
	}
	zero := func(x int64) bool { y, ok := l.at(c, x); return ok && y == 0 }
	lo, hi := at, at
	for lo > from && zero(lo-1) {
		lo--
	}
	for hi < to && zero(hi+1) {
		hi++
	}
	return lo, hi
}

// avoids is the sizes around at over which a curve is never 0.
func (l *line) avoids(c curve, at, from, to int64) (int64, int64) {
	negative := curve(nil).minus(c)
	var root func(lo, hi int64, last bool) (int64, bool)
	root = func(lo, hi int64, last bool) (int64, bool) {
		if lo > hi {
			return 0, false
		}
		if up, ok := l.between(c, lo, hi); ok && up < 0 {
			return 0, false
		}
		if up, ok := l.between(negative, lo, hi); ok && up < 0 {
			return 0, false
		}
		if lo == hi {
			return lo, true
		}
		mid := lo + (hi-lo)/2
		first, second := [2]int64{lo, mid}, [2]int64{mid + 1, hi}
		if last {
			first, second = second, first
		}
		if x, found := root(first[0], first[1], last); found {
			return x, true
		}
		return root(second[0], second[1], last)
	}
	if x, found := root(from, at-1, true); found {
		from = x + 1
	}
	if x, found := root(at+1, to, false); found {
		to = x - 1
	}
	return from, to
}

type stretchOf struct {
	from, to int64
	of       int
}

// mostSplits is how often a range is split where curves with steps cross again and again.
const mostSplits = 1 << 12

// piecewise finds which of the curves is the largest where: halves are split until one is proven to be so over the
// whole half. ok is false if that has no end.
func (l *line) piecewise(curves []curve, from, to int64) (out []stretchOf, ok bool) {
	splits := 0
	var split func(lo, hi int64)
	split = func(lo, hi int64) {
		best, most := 0, int64(0)
		for i, c := range curves {
			if y, _ := l.at(c, lo); i == 0 || y > most {
				best, most = i, y
			}
		}
		holds := lo == hi
		if !holds {
			holds = !slices.ContainsFunc(curves, func(c curve) bool {
				up, ok := l.between(c.minus(curves[best]), lo, hi)
				return !ok || up > 0
			})
		}
		switch n := len(out); {
		case !holds:
			if splits++; splits > mostSplits {
				return
			}
			mid := lo + (hi-lo)/2
			split(lo, mid)
			split(mid+1, hi)
		case n > 0 && out[n-1].of == best:
			out[n-1].to = hi
		default:
			out = append(out, stretchOf{lo, hi, best})
		}
	}
	split(from, to)
	return out, splits <= mostSplits
}
