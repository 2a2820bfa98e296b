package formulas

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// terms is the table of products of dims that the formulas of a graph are sums of. Few are different, so a formula is a
// short row of numbers, and sums over thousands of values cost little.
type terms struct {
	products []product
	bases    []base
	rows     map[string]polynomial // by formula
	product  map[string]int
	base     map[string]int
}

// polynomial is a formula: a coefficient for each product; products that it has none of may be left out at the end.
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

// values is every product under a binding of the dims, most where it leaves 64 bits or cannot be evaluated; ok is false
// then.
func (t *terms) values(b *graph.Binding) (v []int64, ok bool) {
	at := make([]int64, len(t.bases))
	ok = true
	for i, x := range t.bases {
		var err error
		if at[i], err = b.Eval(x.dim); err != nil {
			at[i], ok = most, false
		}
	}
	v = slices.Repeat([]int64{1}, len(t.products))
	for i, p := range t.products {
		for _, f := range p.factors {
			for range f.pow {
				var fits bool
				v[i], fits = times(v[i], at[f.base])
				ok = ok && fits
			}
		}
	}
	return v, ok
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
