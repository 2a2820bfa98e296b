package planner

import (
	"slices"

	"memopt/memopt/graph"
)

// line is how formulas go along one dim, the others being numbers. Every product is a number times a kind: powers of
// the dim, and of what cannot be written as such but is at least 0 and never falls as the dim grows, as a division by a
// number is. A curve is a formula of kinds, the first of which is what does not depend on the dim.
type line struct {
	t     *terms
	b     *graph.Binding
	dim   string
	kinds [][]power
	kind  []int             // by product; −1 where it is no number times anything that grows
	times []int64           // by product
	known map[int64][]int64 // what kinds are, by size
}

func (t *terms) along(dim string, b *graph.Binding) *line {
	l := &line{t: t, b: b, dim: dim, kinds: [][]power{nil}, known: map[int64][]int64{}}
	for _, p := range t.products {
		number, ok := int64(1), true
		var kind []power
		for _, f := range p.factors {
			x := t.bases[f.base]
			if x.dim.Uses(dim) {
				kind = append(kind, f)
				ok = ok && (x.name == dim || x.least && x.dim.Grows(dim))
				continue
			}
			n, err := b.Eval(x.dim)
			for range f.pow {
				fits := false
				number, fits = times(number, n)
				ok = ok && fits && err == nil
			}
		}
		at := -1
		if ok {
			if at = slices.IndexFunc(l.kinds, func(k []power) bool { return slices.Equal(k, kind) }); at < 0 {
				at, l.kinds = len(l.kinds), append(l.kinds, kind)
			}
		}
		l.kind, l.times = append(l.kind, at), append(l.times, number)
	}
	return l
}

// curve is p along the line; ok is false where it is none, or where a number leaves 64 bits.
func (l *line) curve(p polynomial) (c polynomial, ok bool) {
	for i, k := range p {
		if k == 0 {
			continue
		}
		n, fits := times(k, l.times[i])
		if at := l.kind[i]; at >= 0 && fits {
			c = c.plus(append(make(polynomial, at), n), 1)
		} else {
			return nil, false
		}
	}
	return c, true
}

// moves reports whether a curve depends on the dim.
func moves(c polynomial) bool {
	return len(c) > 1 && slices.ContainsFunc(c[1:], func(k int64) bool { return k != 0 })
}

// at is the curve at x ≥ 1; ok is false where it leaves 64 bits.
func (l *line) at(c polynomial, x int64) (sum int64, ok bool) { return c.at(l.values(x)) }

// between is a bound that the curve does not exceed from lo to hi: the terms that grow at the end, the others at the
// beginning.
func (l *line) between(c polynomial, lo, hi int64) (sum int64, ok bool) {
	v := slices.Clone(l.values(hi))
	for i, low := range l.values(lo) {
		if c.coef(i) < 0 {
			v[i] = low
		}
	}
	return c.at(v)
}

// values is what kinds are at a size; what leaves 64 bits is most.
func (l *line) values(x int64) []int64 {
	if v, ok := l.known[x]; ok {
		return v
	}
	v := make([]int64, len(l.kinds))
	for i, kind := range l.kinds {
		v[i] = 1
		for _, f := range kind {
			n := most
			err := graph.Try(func() {
				if y, wrong := l.b.Eval(l.t.bases[f.base].dim.Subst(map[string]graph.Dim{l.dim: graph.Num(x)})); wrong == nil {
					n = y
				}
			})
			if err != nil {
				n = most
			}
			for range f.pow {
				v[i], _ = times(v[i], n)
			}
		}
	}
	l.known[x] = v
	return v
}

// fits is the largest size up to which a curve stays within 64 bits.
func (l *line) fits(c polynomial, at, to int64) int64 {
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
func (l *line) stays(c polynomial, at, from, to int64) (int64, int64) {
	if !moves(c) {
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
func (l *line) avoids(c polynomial, at, from, to int64) (int64, int64) {
	negative := polynomial(nil).plus(c, -1)
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
func (l *line) piecewise(curves []polynomial, from, to int64) (out []stretchOf, ok bool) {
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
			holds = !slices.ContainsFunc(curves, func(c polynomial) bool {
				up, ok := l.between(slices.Clone(c).plus(curves[best], -1), lo, hi)
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
