package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// Expression is a number of bytes as in ONNX Runtime's table: a sum of products of sizes, some of
// which may be sums, with coefficients that may be fractions. It prints in the form that readers of
// the table know: 128.0*batch*seq_len**2, a*b*(4.0*b + 2.0), 24.0000000000000.
type Expression struct{ sum sum }

type sum []product

// product is coef × its factors, which are sorted. It is exact if all its numbers were integers,
// without a decimal point.
type product struct {
	coef    float64
	exact   bool
	factors []power
}

// power is a name, an operation as text, or a sum, raised to a positive integer power.
type power struct {
	name string
	sum  sum // nil: a name or an operation
	pow  int
}

// ofDim turns a formula into a sum.
func ofDim(d graph.Dim) sum {
	var s sum
	for _, t := range d.Terms() {
		p := product{coef: float64(t.Coef), exact: true}
		for _, f := range t.Factors {
			p.factors = append(p.factors, power{name: f.Base, pow: f.Pow})
		}
		s = append(s, p)
	}
	return s.add(nil)
}

// key is equal for factors that differ in their power only, and for products that differ in their
// coefficient only.
func (f power) key() string {
	if f.sum != nil {
		return "(" + f.sum.String() + ")"
	}
	return f.name
}

func (p product) key() string {
	var sb strings.Builder
	for _, f := range p.factors {
		fmt.Fprintf(&sb, "%s**%d*", f.key(), f.pow)
	}
	return sb.String()
}

// rank orders the factors of a product: names, sums, operations.
func (f power) rank() int {
	switch {
	case f.sum != nil:
		return 1
	case strings.HasSuffix(f.name, ")"):
		return 2
	}
	return 0
}

func (p product) rank() int {
	if len(p.factors) == 0 {
		return 0
	}
	return p.factors[0].rank()
}

func cmpFactors(a, b power) int {
	if c := cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(len(a.sum), len(b.sum)), strings.Compare(a.name, b.name)); c != 0 {
		return c
	}
	for i, p := range a.sum {
		q := b.sum[i]
		if c := cmp.Or(cmp.Compare(len(p.factors), len(q.factors)), cmp.Compare(p.rank(), q.rank()), strings.Compare(p.key(), q.key()), cmp.Compare(p.coef, q.coef)); c != 0 {
			return c
		}
	}
	return 0
}

// add adds two sums, merges products with equal factors, and sorts.
func (s sum) add(t sum) sum {
	at := map[string]int{}
	var out sum
	for _, p := range slices.Concat(s, t) {
		k := p.key()
		if i, ok := at[k]; ok {
			out[i].coef += p.coef
			out[i].exact = out[i].exact && p.exact
			continue
		}
		at[k] = len(out)
		out = append(out, p)
	}
	out = slices.DeleteFunc(out, func(p product) bool { return p.coef == 0 })
	slices.SortFunc(out, cmpProducts)
	return out
}

// cmpProducts orders by falling powers of the first factors that differ; missing factors have power
// 0.
func cmpProducts(a, b product) int {
	i, j := 0, 0
	for i < len(a.factors) && j < len(b.factors) {
		c := cmpFactors(a.factors[i], b.factors[j])
		switch {
		case c != 0:
			return c
		case a.factors[i].pow != b.factors[j].pow:
			return b.factors[j].pow - a.factors[i].pow
		}
		i, j = i+1, j+1
	}
	return (len(b.factors) - j) - (len(a.factors) - i)
}

func (p product) times(q product) product {
	out := product{coef: p.coef * q.coef, exact: p.exact && q.exact}
	out.factors = slices.Clone(p.factors)
	for _, f := range q.factors {
		i := slices.IndexFunc(out.factors, func(g power) bool { return g.key() == f.key() })
		if i < 0 {
			out.factors = append(out.factors, f)
			continue
		}
		out.factors[i].pow += f.pow
	}
	slices.SortFunc(out.factors, cmpFactors)
	return out
}

// mul multiplies without expanding brackets, unless one side is a number.
func (s sum) mul(t sum) sum {
	switch {
	case len(s) == 0 || len(t) == 0:
		return nil
	case len(s) == 1 && (len(t) == 1 || len(s[0].factors) == 0):
		var out sum
		for _, q := range t {
			out = append(out, s[0].times(q))
		}
		return out.add(nil)
	case len(t) == 1 && len(t[0].factors) == 0:
		return t.mul(s)
	}
	one := product{coef: 1, exact: true}
	for _, side := range []sum{slices.Clone(s), slices.Clone(t)} {
		if len(side) == 1 {
			one = one.times(side[0])
		} else {
			n := side.content()
			for i := range side {
				side[i].coef /= n
			}
			one = one.times(product{n, true, []power{{sum: side, pow: 1}}})
		}
	}
	return sum{one}
}

// content is the greatest common divisor of the coefficients, 1 if one is not exact.
func (s sum) content() float64 {
	var n float64
	for _, p := range s {
		if !p.exact {
			return 1
		}
		for m := math.Abs(p.coef); m > 0; {
			n, m = m, math.Mod(n, m)
		}
	}
	return n
}

// open expands all brackets.
func (s sum) open() sum {
	var out sum
	for _, p := range s {
		part := sum{{coef: p.coef, exact: p.exact}}
		for _, f := range p.factors {
			factor := sum{{1, true, []power{{name: f.name, pow: f.pow}}}}
			times := 1
			if f.sum != nil {
				factor, times = f.sum.open(), f.pow
			}
			for range times {
				var next sum
				for _, x := range part {
					for _, y := range factor {
						next = append(next, x.times(y))
					}
				}
				if part = next.add(nil); len(part) > mostProducts {
					panic(errTooLong)
				}
			}
		}
		out = append(out, part...)
	}
	return out.add(nil)
}

// mostProducts bounds the length of an expanded sum.
const mostProducts = 4096

var errTooLong = errors.New("formula too long to simplify")

// shared moves factors that all products have in common out of a sum.
func (s sum) shared() sum {
	if len(s) < 2 {
		return s
	}
	var common []power
	for _, f := range s[0].factors {
		for _, p := range s[1:] {
			i := slices.IndexFunc(p.factors, func(g power) bool { return g.key() == f.key() })
			if i < 0 {
				f.pow = 0
				break
			}
			f.pow = min(f.pow, p.factors[i].pow)
		}
		if f.pow > 0 {
			common = append(common, f)
		}
	}
	if len(common) == 0 {
		return s
	}
	even := true
	for _, p := range s {
		even = even && math.Abs(p.coef) == math.Abs(s[0].coef)
	}
	outer := product{coef: 1, exact: true, factors: common}
	if even {
		outer.coef, outer.exact = s[0].coef, s[0].exact
	}
	var inner sum
	for _, p := range s {
		rest := product{coef: p.coef, exact: p.exact}
		if even {
			rest.coef, rest.exact = p.coef/outer.coef, true
		}
		for _, f := range p.factors {
			if i := slices.IndexFunc(common, func(g power) bool { return g.key() == f.key() }); i >= 0 {
				f.pow -= common[i].pow
			}
			if f.pow > 0 {
				rest.factors = append(rest.factors, f)
			}
		}
		if len(rest.factors) == 1 && rest.factors[0].sum != nil && rest.factors[0].pow == 1 {
			f := rest.factors[0]
			rest.factors = nil
			inner = append(inner, sum{rest}.mul(f.sum)...)
			continue
		}
		inner = append(inner, rest)
	}
	return sum{outer}.mul(inner.add(nil))
}

// ops counts the operations in the text of a sum.
func (s sum) ops() int {
	n := max(0, len(s)-1)
	for _, p := range s {
		if len(p.factors) > 0 && (p.coef != 1 || !p.exact) {
			n++
		}
		n += max(0, len(p.factors)-1)
		for _, f := range p.factors {
			if f.pow > 1 {
				n++
			}
			n += f.sum.ops()
		}
	}
	return n
}

// simple is the shortest of the forms that the table uses: as written, with common factors in
// front, or fully expanded.
func (s sum) simple() (best sum) {
	best = s
	defer func() {
		if r := recover(); r != nil && r != errTooLong {
			panic(r)
		}
	}()
	open := s.open()
	for _, form := range []sum{open, open.shared(), s.shared()} {
		if form.ops() < best.ops() || form.ops() == best.ops() && len(form) < len(best) {
			best = form
		}
	}
	return best
}

// String prints the sum like Python's sympy.
func (s sum) String() string {
	if len(s) == 0 {
		return "0"
	}
	if len(s) == 1 && len(s[0].factors) == 0 {
		return s[0].number(false)
	}
	order := s
	// sympy writes a - b for a number a minus a single name.
	if len(s) == 2 && len(s[1].factors) == 0 && s[1].coef > 0 && len(s[0].factors) == 1 && s[0].coef < 0 {
		order = sum{s[1], s[0]}
	}
	var sb strings.Builder
	for i, p := range order {
		switch {
		case i > 0 && p.coef < 0:
			sb.WriteString(" - ")
		case i > 0:
			sb.WriteString(" + ")
		case p.coef < 0:
			sb.WriteString("-")
		}
		p.coef = math.Abs(p.coef)
		sb.WriteString(p.String())
	}
	return sb.String()
}

func (p product) String() string {
	if len(p.factors) == 0 {
		return p.number(true)
	}
	var parts []string
	if p.coef != 1 || !p.exact {
		parts = append(parts, p.number(true))
	}
	for _, f := range p.factors {
		text := f.key()
		if f.pow > 1 {
			text = fmt.Sprintf("%s**%d", text, f.pow)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "*")
}

// number prints 15 significant digits like sympy: with trim, as in products, without trailing
// zeros.
func (p product) number(trim bool) string {
	const digits = 15
	if p.exact {
		return strconv.FormatFloat(p.coef, 'f', -1, 64)
	}
	text := strconv.FormatFloat(p.coef, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	e, _ := strconv.Atoi(exponent)
	if e < -4 || e >= digits {
		if trim {
			mantissa = trimZeros(mantissa)
		}
		return fmt.Sprintf("%se%+03d", mantissa, e)
	}
	text = strconv.FormatFloat(p.coef, 'f', digits-1-e, 64)
	if !strings.Contains(text, ".") {
		text += "."
	}
	if trim {
		return trimZeros(text)
	}
	return text
}

// trimZeros removes trailing zeros, but leaves one decimal.
func trimZeros(s string) string {
	s = strings.TrimRight(s, "0")
	if strings.HasSuffix(s, ".") {
		s += "0"
	}
	return s
}

// String prints the expression.
func (e Expression) String() string { return e.sum.String() }

// At substitutes sizes for some of the names.
func (e Expression) At(sizes map[string]int64) Expression {
	return Expression{e.sum.at(sizes)}
}

func (s sum) at(sizes map[string]int64) sum {
	var out sum
	for _, p := range s {
		part := sum{{coef: 1, exact: true}}
		for _, f := range p.factors {
			factor := sum{{1, true, []power{{name: f.name, pow: 1}}}}
			name := f.name
			if plain, err := strconv.Unquote(name); err == nil {
				name = plain
			}
			if n, ok := sizes[name]; ok {
				factor = sum{{coef: float64(n), exact: true}}.add(nil)
			} else if f.sum != nil {
				factor = f.sum.at(sizes)
			} else if f.rank() == 2 {
				factor = operationAt(f.name, sizes)
			}
			for range f.pow {
				part = part.mul(factor)
			}
		}
		out = append(out, sum{{coef: p.coef, exact: p.exact}}.mul(part)...)
	}
	return out.add(nil)
}

// operationAt substitutes sizes in an operation such as floor(a/2), and evaluates it if possible.
func operationAt(text string, sizes map[string]int64) sum {
	whole := sum{{1, true, []power{{name: text, pow: 1}}}}
	d, err := graph.ParseDim(text)
	if err != nil {
		return whole
	}
	by := map[string]graph.Dim{}
	for name, n := range sizes {
		by[name] = graph.Num(n)
	}
	if graph.Try(func() { whole = ofDim(d.Subst(by)) }) != nil {
		return whole
	}
	return whole
}

// Number is the expression's value if it has no names.
func (e Expression) Number() (float64, bool) {
	switch {
	case len(e.sum) == 0:
		return 0, true
	case len(e.sum) == 1 && len(e.sum[0].factors) == 0:
		return e.sum[0].coef, true
	}
	return 0, false
}
