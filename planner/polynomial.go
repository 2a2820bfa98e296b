package planner

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// terms is the table of products of dims that the formulas of a graph are sums
// of. Few are different, so a formula is a short row of numbers, and sums over
// thousands of values cost little.
type terms struct {
	products []product
	bases    []base
	rows     map[string]polynomial // by formula
	product  map[string]int
	base     map[string]int
}

// polynomial is a formula: a coefficient for each product; products that it
// has none of may be left out at the end.
type polynomial []int64

// product is powers of bases.
type product struct{ factors []power }

type power struct{ base, pow int }

// base is the name of a dim, or what cannot be written as a sum of products.
type base struct {
	name  string // "" if it is no name
	dim   graph.Dim
	least bool // it is known to be at least 0
}

func newTerms() *terms {
	return &terms{rows: map[string]polynomial{}, product: map[string]int{}, base: map[string]int{}}
}

// of is a formula's row.
func (t *terms) of(d graph.Dim) (polynomial, error) {
	if n, ok := d.Const(); ok && len(t.products) > 0 {
		return polynomial{n}, nil
	}
	text := d.String()
	if row, ok := t.rows[text]; ok {
		return row, nil
	}
	if len(t.products) == 0 {
		t.products, t.product[""] = []product{{}}, 0 // the empty product stands first
	}
	var row polynomial
	for _, x := range d.Terms() {
		i, err := t.place(x.Factors)
		if err != nil {
			return nil, err
		}
		for len(row) <= i {
			row = append(row, 0)
		}
		row[i] += x.Coef
	}
	t.rows[text] = row
	return row, nil
}

func (t *terms) place(factors []graph.Power) (int, error) {
	var key strings.Builder
	for _, f := range factors {
		fmt.Fprintf(&key, "%s^%d ", f.Base, f.Pow)
	}
	if i, ok := t.product[key.String()]; ok {
		return i, nil
	}
	var p product
	for _, f := range factors {
		b, ok := t.base[f.Base]
		if !ok {
			d, err := graph.ParseDim(f.Base)
			if err != nil {
				return 0, err
			}
			x := base{dim: d}
			if names := d.Names(); len(names) == 1 && graph.Sym(names[0]).Equal(d) {
				x.name = names[0]
			}
			order, known := d.Compare(graph.Num(-1))
			x.least = known && order > 0
			b = len(t.bases)
			t.bases = append(t.bases, x)
			t.base[f.Base] = b
		}
		p.factors = append(p.factors, power{b, f.Pow})
	}
	i := len(t.products)
	t.products = append(t.products, p)
	t.product[key.String()] = i
	return i, nil
}

// values is every product under a binding of the dims; ok is false where one
// leaves 64 bits.
func (t *terms) values(b *graph.Binding) (v []int64, ok bool, err error) {
	at := make([]int64, len(t.bases))
	for i, x := range t.bases {
		if at[i], err = b.Eval(x.dim); err != nil {
			return nil, false, err
		}
	}
	v, ok = make([]int64, len(t.products)), true
	for i, p := range t.products {
		v[i] = 1
		for _, f := range p.factors {
			for range f.pow {
				var fits bool
				v[i], fits = times(v[i], at[f.base])
				ok = ok && fits
			}
		}
	}
	return v, ok, nil
}

// at is the formula's number where the products have values.
func (p polynomial) at(values []int64) (sum int64, ok bool) {
	ok = true
	for i, c := range p {
		if c == 0 {
			continue
		}
		x, fits := times(c, values[i])
		sum += x
		ok = ok && fits && sum < most && sum > -most
	}
	return sum, ok
}

// most is what sums of formulas stay below, so that none leaves 64 bits.
const most = int64(1) << 61

func times(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	if hi != 0 || lo >= uint64(most) || a == math.MinInt64 || b == math.MinInt64 {
		return most, false
	}
	return a * b, true
}

func (p polynomial) coef(i int) int64 {
	if i < len(p) {
		return p[i]
	}
	return 0
}

// plus adds k·q to p, in place where there is room.
func (p polynomial) plus(q polynomial, k int64) polynomial {
	for len(p) < len(q) {
		p = append(p, 0)
	}
	for i, c := range q {
		p[i] += k * c
	}
	return p
}

func (p polynomial) equal(q polynomial) bool {
	for i := range max(len(p), len(q)) {
		if p.coef(i) != q.coef(i) {
			return false
		}
	}
	return true
}

// below reports that p is at most q wherever dims are sizes.
func (t *terms) below(p, q polynomial) bool {
	for i := range max(len(p), len(q)) {
		d := q.coef(i) - p.coef(i)
		if d < 0 || d > 0 && slices.ContainsFunc(t.products[i].factors, func(f power) bool { return !t.bases[f.base].least }) {
			return false
		}
	}
	return true
}

// dim is the row as a formula again.
func (t *terms) dim(p polynomial) graph.Dim {
	sum := graph.Num(0)
	for i, c := range p {
		if c == 0 {
			continue
		}
		x := graph.Num(c)
		for _, f := range t.products[i].factors {
			for range f.pow {
				x = x.Mul(t.bases[f.base].dim)
			}
		}
		sum = sum.Add(x)
	}
	return sum
}

// text is the row as text; long sums are cut by formulas' own limits.
func (t *terms) text(p polynomial) (s string) {
	if err := graph.Try(func() { s = t.dim(p).String() }); err != nil {
		return err.Error()
	}
	return s
}

// line is how formulas go along one dim, the others being numbers. Every product is
// a number times a kind.
type line struct {
	t     *terms
	b     *graph.Binding
	dim   string
	kinds []kind
	kind  []int             // by product; −1 where it is no number times anything that grows
	times []int64           // by product
	known map[int64][]int64 // what kinds are, by size
}

// kind is what a product is of a dim: a power, times steps, which are what cannot be
// written as one but is at least 0 and never falls as the dim grows, as a division
// by a number is.
type kind struct {
	pow   int
	steps []power
}

// curve is a formula along a line: a coefficient for each kind. The first is that of
// what does not depend on the dim.
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
		case slices.Contains(x.dim.Names(), l.dim):
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

// curve is p along the line; ok is false where it is none, or where a number leaves
// 64 bits.
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

// between is a bound that the curve does not exceed from lo to hi: the terms
// that grow at the end, the others at the beginning.
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
