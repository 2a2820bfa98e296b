package formulas

import (
	"slices"
	"sort"

	"memopt/internal/graph"
)

// line is how formulas go along one dim, the others being numbers: every product of theirs is a sum of products of the
// dim, and of what cannot be written as such but is at least 0 and never falls as the dim grows, as a division by a
// number is. A curve is a formula of those, the first of which is 1.
type line struct {
	terms *terms
	dim   string
	rows  []polynomial      // by product of the other formulas; nil where it is no such sum
	known map[int64][]int64 // what the products of the dim are, by size
}

func (t *terms) along(dim string, b *graph.Binding) *line {
	l := &line{terms: newTerms(), dim: dim, known: map[int64][]int64{}}
	for i := range t.products {
		var row polynomial
		err := graph.Try(func() {
			d := t.dim(append(make(polynomial, i), 1))
			numbers := map[string]graph.Dim{}
			for _, name := range d.Names() {
				if n, err := b.Eval(graph.Sym(name)); err == nil && name != dim {
					numbers[name] = graph.Num(n)
				}
			}
			row, _ = l.terms.of(d.Subst(numbers))
		})
		if err != nil {
			row = nil
		}
		l.rows = append(l.rows, row)
	}
	return l
}

// curve is p along the line; ok is false where it is none, or where a number leaves 64 bits.
func (l *line) curve(p polynomial) (c polynomial, ok bool) {
	for i, k := range p {
		if k == 0 {
			continue
		}
		if l.rows[i] == nil {
			return nil, false
		}
		for j, n := range l.rows[i] {
			grows := func(f power) bool {
				b := l.terms.bases[f.base]
				return b.name == l.dim || b.least && b.dim.Grows(l.dim)
			}
			x, fits := times(k, n)
			if !fits || n != 0 && slices.ContainsFunc(l.terms.products[j].factors, func(f power) bool { return !grows(f) }) {
				return nil, false
			}
			c = c.plus(append(make(polynomial, j), x), 1)
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

// values is what the products of the dim are at a size; what leaves 64 bits is most.
func (l *line) values(x int64) []int64 {
	v, met := l.known[x]
	if !met {
		if b, err := graph.Bind(map[string]int64{l.dim: x}); err == nil {
			v, _ = l.terms.values(b)
		}
		l.known[x] = v
	}
	return v
}

// fits is the largest size up to which a curve stays within 64 bits.
func (l *line) fits(c polynomial, at, to int64) int64 {
	return at + int64(sort.Search(int(to-at), func(i int) bool { _, ok := l.at(c, at+int64(i)+1); return !ok }))
}

// around is the sizes around at over which a curve is 0 if zero is true, and is not 0 otherwise.
func (l *line) around(c polynomial, zero bool, at, from, to int64) (int64, int64) {
	negative := polynomial(nil).plus(c, -1)
	// end is the first size from lo to hi, or the last, for which that is not so: halves are passed over that are proven
	// to have none.
	var end func(lo, hi int64, last bool) (int64, bool)
	end = func(lo, hi int64, last bool) (int64, bool) {
		if lo > hi {
			return 0, false
		}
		up, known := l.between(c, lo, hi)
		down, also := l.between(negative, lo, hi)
		if zero && known && also && up == 0 && down == 0 || !zero && (known && up < 0 || also && down < 0) {
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
		if x, found := end(first[0], first[1], last); found {
			return x, true
		}
		return end(second[0], second[1], last)
	}
	if x, found := end(from, at-1, true); found {
		from = x + 1
	}
	if x, found := end(at+1, to, false); found {
		to = x - 1
	}
	return from, to
}

// piece is sizes, both ends included, over which a curve is the largest.
type piece struct {
	from, to int64
	of       int
}

// mostSplits is how often a range is split where curves with steps cross again and again.
const mostSplits = 1 << 12

// piecewise finds which of the curves is the largest where: halves are split until one is proven to be so over the
// whole half. ok is false if that has no end.
func (l *line) piecewise(curves []polynomial, from, to int64) (out []piece, ok bool) {
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
			out = append(out, piece{lo, hi, best})
		}
	}
	split(from, to)
	return out, splits <= mostSplits
}
