package graph

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
)

// Dim is an integer or a formula of named dims: sums, products, floor and
// ceiling division, max and min. Dims are immutable, and the zero Dim is the number 0.
//
// Every Dim is in a normal form: a polynomial with integer coefficients over atoms (names, and
// divisions, max and min that do not simplify). So equal formulas have the same terms and
// print the same text.
//
// Names stand for sizes of tensors. Simplification assumes that each is
// at least 1; Binding refuses anything else.
type Dim struct {
	num  int64
	poly *poly // nil: the Dim is the number num
}

// poly is a sum of terms, highest degree first; never a plain constant.
type poly struct {
	terms []term
	text  atomic.Pointer[string] // cached by String
}

// term is coef × the product of its factors, which are sorted by atom text. Terms share their factors, which never change.
type term struct {
	coef    int64
	factors []factor
}

type factor struct {
	atom *atom
	pow  int
}

// atom is a name or an operation that cannot be written as a polynomial.
type atom struct {
	op   atomOp
	name string // for opName
	args []Dim
	text string
}

type atomOp uint8

const (
	opName atomOp = iota
	opFloor
	opCeil
	opMax
	opMin
)

// DimError is the panic value of arithmetic that overflows int64, divides by 0, or makes a
// formula too large. Try returns it as an error.
type DimError struct{ Msg string }

func (e *DimError) Error() string { return e.Msg }

// Num is the Dim of a plain number.
func Num(n int64) Dim { return Dim{num: n} }

// Sym is the Dim of a name.
func Sym(name string) Dim {
	return ofAtom(&atom{op: opName, name: name, text: quoteName(name)})
}

func ofAtom(a *atom) Dim {
	return ofTerm(term{1, []factor{{a, 1}}})
}

// ofTerms brings terms into normal form. It takes over its argument.
func ofTerms(ts []term) Dim {
	slices.SortStableFunc(ts, cmpTerms)
	out := ts[:0]
	for _, t := range ts {
		if n := len(out); n > 0 && cmpTerms(out[n-1], t) == 0 {
			out[n-1].coef = addInt(out[n-1].coef, t.coef)
			continue
		}
		out = append(out, t)
	}
	out = slices.DeleteFunc(out, func(t term) bool { return t.coef == 0 })
	if len(out) == 0 {
		return Dim{}
	}
	if len(out) == 1 && len(out[0].factors) == 0 {
		return Dim{num: out[0].coef}
	}
	checkTerms(len(out))
	return Dim{poly: (&poly{terms: slices.Clip(out)}).checked()}
}

// ofTerm is ofTerms of a single term.
func ofTerm(t term) Dim {
	if t.coef == 0 || len(t.factors) == 0 {
		return Dim{num: t.coef}
	}
	x := &struct {
		poly
		terms [1]term
	}{terms: [1]term{t}}
	x.poly.terms = x.terms[:]
	return Dim{poly: x.poly.checked()}
}

// checked refuses formulas with too long a text. A single name may be as long as a file makes it.
func (p *poly) checked() *poly {
	most := 0 // bound on the text's length
	for _, t := range p.terms {
		most += 24
		for _, f := range t.factors {
			most += len(f.atom.text) + 8
		}
	}
	if most <= maxText {
		return p
	}
	if _, is := (Dim{poly: p}).asAtom(); !is && len(p.String()) > maxText {
		panic(errTooLarge)
	}
	return p
}

// String is the canonical text.
func (p *poly) String() string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	text := printTerms(p.terms)
	p.text.Store(&text)
	return text
}

// cmpTerms orders by descending degree, then by the factors' texts. It ignores coefficients,
// so terms that compare equal can be merged.
func cmpTerms(a, b term) int {
	if c := cmp.Compare(b.degree(), a.degree()); c != 0 {
		return c
	}
	return slices.CompareFunc(a.factors, b.factors, func(x, y factor) int {
		if c := strings.Compare(x.atom.text, y.atom.text); c != 0 {
			return c
		}
		return cmp.Compare(y.pow, x.pow)
	})
}

func (t term) degree() (d int) {
	for _, f := range t.factors {
		d += f.pow
	}
	return d
}

func (d Dim) terms() []term {
	if d.poly != nil {
		return d.poly.terms
	}
	if d.num == 0 {
		return nil
	}
	return []term{{coef: d.num}}
}

// Const reports the number that d is, if it is one.
func (d Dim) Const() (int64, bool) { return d.num, d.poly == nil }

// Is reports whether d is the number n.
func (d Dim) Is(n int64) bool { return d.poly == nil && d.num == n }

// Equal reports whether a and b are the same formula after simplification.
func (d Dim) Equal(b Dim) bool {
	if d.poly == nil || b.poly == nil {
		return d.poly == b.poly && d.num == b.num
	}
	return d.poly == b.poly || slices.EqualFunc(d.poly.terms, b.poly.terms, term.equal)
}

func (t term) equal(u term) bool {
	return t.coef == u.coef && slices.EqualFunc(t.factors, u.factors, func(x, y factor) bool {
		return x.pow == y.pow && (x.atom == y.atom || x.atom.text == y.atom.text)
	})
}

// Add is d + b.
func (d Dim) Add(b Dim) Dim {
	switch {
	case d.poly == nil && b.poly == nil:
		return Dim{num: addInt(d.num, b.num)}
	case d.Is(0):
		return b
	case b.Is(0):
		return d
	}
	ts := make([]term, 0, len(d.terms())+len(b.terms()))
	return ofTerms(append(append(ts, d.terms()...), b.terms()...))
}

// Neg is −d.
func (d Dim) Neg() Dim { return d.Mul(Num(-1)) }

// Sub is d − b.
func (d Dim) Sub(b Dim) Dim {
	if d.poly == nil && b.poly == nil {
		return Dim{num: subInt(d.num, b.num)}
	}
	return d.Add(b.Neg())
}

// Mul is d × b.
func (d Dim) Mul(b Dim) Dim {
	switch {
	case d.poly == nil && b.poly == nil:
		return Dim{num: mulInt(d.num, b.num)}
	case d.Is(1):
		return b
	case b.Is(1):
		return d
	case d.poly == nil:
		return b.times(d.num)
	case b.poly == nil:
		return d.times(b.num)
	case len(d.poly.terms) == 1 && len(b.poly.terms) == 1:
		return ofTerm(d.poly.terms[0].mul(b.poly.terms[0]))
	}
	checkTerms(len(d.terms()) * len(b.terms()))
	ts := make([]term, 0, len(d.terms())*len(b.terms()))
	for _, x := range d.terms() {
		for _, y := range b.terms() {
			ts = append(ts, x.mul(y))
		}
	}
	return ofTerms(ts)
}

// times is a formula × n.
func (d Dim) times(n int64) Dim {
	if n == 0 {
		return Dim{}
	}
	if ts := d.poly.terms; len(ts) == 1 {
		return ofTerm(term{mulInt(ts[0].coef, n), ts[0].factors})
	}
	ts := slices.Clone(d.poly.terms)
	for i := range ts {
		ts[i].coef = mulInt(ts[i].coef, n)
	}
	return Dim{poly: (&poly{terms: ts}).checked()}
}

func (t term) mul(u term) term {
	fs := make([]factor, 0, len(t.factors)+len(u.factors))
	i, j := 0, 0
	for i < len(t.factors) || j < len(u.factors) {
		switch {
		case j == len(u.factors) || i < len(t.factors) && t.factors[i].atom.text < u.factors[j].atom.text:
			fs = append(fs, t.factors[i])
			i++
		case i == len(t.factors) || u.factors[j].atom.text < t.factors[i].atom.text:
			fs = append(fs, u.factors[j])
			j++
		default:
			fs = append(fs, factor{t.factors[i].atom, t.factors[i].pow + u.factors[j].pow})
			i, j = i+1, j+1
		}
	}
	p := term{mulInt(t.coef, u.coef), fs}
	if p.degree() > maxDegree {
		panic(errTooLarge)
	}
	return p
}

// Limits on a formula, so that a few bytes of a hostile file cannot make one that is huge or
// takes forever.
const (
	maxTerms  = 256
	maxDegree = 64
	maxArgs   = 16 // of max and min, which compare all pairs
	maxText   = 1 << 13
)

var errTooLarge = &DimError{"formula too large"}

func checkTerms(n int) {
	if n > maxTerms {
		panic(errTooLarge)
	}
}

// FloorDiv is d / b rounded down. It panics with DimError when b is 0.
func (d Dim) FloorDiv(b Dim) Dim { return divide(opFloor, d, b) }

// CeilDiv is d / b rounded up. It panics with DimError when b is 0.
func (d Dim) CeilDiv(b Dim) Dim { return divide(opCeil, d, b) }

func divide(op atomOp, a, b Dim) Dim {
	if b.Is(0) {
		panic(&DimError{fmt.Sprintf("%s divided by 0", a)})
	}
	if b.Is(1) {
		return a
	}
	if x, ok := a.Const(); ok {
		if y, ok := b.Const(); ok {
			return Num(divInt(op, x, y))
		}
	}
	if q, ok := exactDiv(a, b); ok {
		return q
	}
	if n, ok := b.Const(); ok && n < 0 {
		return divide(op, a.Neg(), b.Neg())
	}
	if n, ok := b.Const(); ok {
		// Divisible terms leave the division: (n·x + r)/n = x + r/n.
		var even, rest []term
		for _, t := range a.terms() {
			if t.coef%n == 0 {
				even = append(even, term{t.coef / n, t.factors})
			} else {
				rest = append(rest, t)
			}
		}
		if len(even) > 0 {
			return ofTerms(even).Add(divide(op, ofTerms(rest), b))
		}
		// ⌊⌊x/m⌋/n⌋ = ⌊x/(m·n)⌋, and the same for ⌈⌉.
		if at, ok := a.asAtom(); ok && at.op == op {
			if m, ok := at.args[1].Const(); ok && m > 0 {
				return divide(op, at.args[0], Num(mulInt(m, n)))
			}
		}
	}
	// Cancel a common factor.
	if g := gcdInt(a.content(), b.content()); g > 1 {
		return divide(op, a.scaleDown(g), b.scaleDown(g))
	}
	return ofAtom(opAtom(op, a, b))
}

func opAtom(op atomOp, args ...Dim) *atom {
	names := [...]string{opFloor: "floor", opCeil: "ceil", opMax: "max", opMin: "min"}
	var sb strings.Builder
	sb.WriteString(names[op])
	sb.WriteByte('(')
	for i, a := range args {
		switch {
		case i > 0 && (op == opFloor || op == opCeil):
			sb.WriteByte('/')
		case i > 0:
			sb.WriteString(", ")
		}
		s := a.String()
		if (op == opFloor || op == opCeil) && !a.isSimple(i == 1) {
			s = "(" + s + ")"
		}
		sb.WriteString(s)
	}
	sb.WriteByte(')')
	if sb.Len() > maxText {
		panic(errTooLarge)
	}
	return &atom{op: op, args: args, text: sb.String()}
}

// isSimple reports whether d needs no parentheses on its side of a division.
func (d Dim) isSimple(divisor bool) bool {
	if d.poly == nil {
		return d.num >= 0
	}
	if _, ok := d.asAtom(); ok {
		return true
	}
	return !divisor && len(d.poly.terms) == 1 && d.poly.terms[0].coef > 0
}

func (d Dim) asAtom() (*atom, bool) {
	if d.poly == nil || len(d.poly.terms) != 1 {
		return nil, false
	}
	t := d.poly.terms[0]
	if t.coef == 1 && len(t.factors) == 1 && t.factors[0].pow == 1 {
		return t.factors[0].atom, true
	}
	return nil, false
}

// content is the greatest common divisor of the coefficients.
func (d Dim) content() int64 {
	var g int64
	for _, t := range d.terms() {
		g = gcdInt(g, t.coef)
	}
	return g
}

func (d Dim) scaleDown(g int64) Dim {
	ts := slices.Clone(d.terms())
	for i := range ts {
		ts[i].coef /= g
	}
	return ofTerms(ts)
}

// exactDiv divides polynomials by their leading terms. It fails at the first remainder, or if
// a step overflows.
func exactDiv(a, b Dim) (q Dim, ok bool) {
	defer giveUp(func() { q, ok = Dim{}, false })
	lead := b.terms()[0]
	for steps := 0; ; steps++ {
		if a.Is(0) {
			return q, true
		}
		t, ok := a.terms()[0].div(lead)
		if !ok || steps > maxTerms {
			return Dim{}, false
		}
		part := ofTerms([]term{t})
		q = q.Add(part)
		next := a.Sub(part.Mul(b))
		if len(next.terms()) > len(a.terms())+len(b.terms()) {
			return Dim{}, false
		}
		a = next
	}
}

// giveUp is deferred where arithmetic may overflow: it recovers a DimError and calls undo.
func giveUp(undo func()) {
	if r := recover(); r != nil {
		if _, is := r.(*DimError); !is {
			panic(r)
		}
		undo()
	}
}

func (t term) div(u term) (term, bool) {
	if u.coef == 0 || t.coef%u.coef != 0 {
		return term{}, false
	}
	fs := slices.Clone(t.factors)
	for _, f := range u.factors {
		i := slices.IndexFunc(fs, func(g factor) bool { return g.atom.text == f.atom.text })
		if i < 0 || fs[i].pow < f.pow {
			return term{}, false
		}
		fs[i].pow -= f.pow
	}
	fs = slices.DeleteFunc(fs, func(f factor) bool { return f.pow == 0 })
	return term{t.coef / u.coef, fs}, true
}

// Mod is the remainder of d / b with the sign of b.
func (d Dim) Mod(b Dim) Dim { return d.Sub(b.Mul(d.FloorDiv(b))) }

// Max is the greater of d and b.
func (d Dim) Max(b Dim) Dim { return extreme(opMax, d, b) }

// Min is the lesser of d and b.
func (d Dim) Min(b Dim) Dim { return extreme(opMin, d, b) }

func extreme(op atomOp, ds ...Dim) Dim {
	var args []Dim
	add := func(a Dim) {
		if !slices.ContainsFunc(args, a.Equal) {
			args = append(args, a)
		}
	}
	for _, d := range ds {
		if at, ok := d.asAtom(); ok && at.op == op {
			for _, a := range at.args {
				add(a)
			}
		} else {
			add(d)
		}
	}
	if len(args) > maxArgs {
		panic(errTooLarge)
	}
	// Drop each argument that is dominated by another.
	beaten := make([]bool, len(args))
	for i, a := range args {
		for j, b := range args[:i] {
			if beaten[i] || beaten[j] {
				continue
			}
			least, most := a.order(b)
			if op == opMin {
				least, most = most, least
			}
			beaten[i] = most // keep the first of equal ones
			beaten[j] = least && !most
		}
	}
	kept := args[:0:0]
	for i, a := range args {
		if !beaten[i] {
			kept = append(kept, a)
		}
	}
	if len(kept) == 1 {
		return kept[0]
	}
	slices.SortFunc(kept, func(a, b Dim) int { return strings.Compare(a.String(), b.String()) })
	return ofAtom(opAtom(op, kept...))
}

// order reports whether d ≥ b, and whether d ≤ b, is proven for all allowed values of the names.
func (d Dim) order(b Dim) (least, most bool) {
	if d.poly == nil && b.poly == nil {
		return d.num >= b.num, d.num <= b.num
	}
	if d.Equal(b) {
		return true, true
	}
	lo, lok := d.above(b)
	hi, hok := b.above(d)
	return lok && lo >= 0, hok && hi >= 0
}

// above finds a proven lower bound of d − b.
func (d Dim) above(b Dim) (lo int64, ok bool) {
	defer giveUp(func() { lo, ok = 0, false })
	return d.Sub(b).lower()
}

// Compare orders a and b for all allowed values of their names: −1, 0 or 1,
// and whether that is proven. Names are taken to be at least 1.
func (d Dim) Compare(b Dim) (order int, known bool) {
	if d.poly == nil && b.poly == nil {
		return cmp.Compare(d.num, b.num), true
	}
	if d.Equal(b) {
		return 0, true
	}
	if lo, ok := d.above(b); ok && lo > 0 {
		return 1, true
	}
	if lo, ok := b.above(d); ok && lo > 0 {
		return -1, true
	}
	return 0, false
}

// lower finds a proven lower bound: every atom x with a known minimum m is written as m + x'
// with x' ≥ 0; if no coefficient of a term in the x' is negative, the constant is the bound.
func (d Dim) lower() (lo int64, ok bool) {
	if d.poly == nil {
		return d.num, true
	}
	defer giveUp(func() { lo, ok = 0, false })
	sum := Dim{}
	for _, t := range d.poly.terms {
		prod := Num(t.coef)
		for _, f := range t.factors {
			least, ok := f.atom.lower()
			if !ok || least < 0 {
				return 0, false
			}
			for range f.pow {
				prod = prod.Mul(ofAtom(f.atom).Add(Num(least)))
			}
		}
		sum = sum.Add(prod)
	}
	for _, t := range sum.terms() {
		if len(t.factors) == 0 {
			lo = t.coef
		} else if t.coef < 0 {
			return 0, false
		}
	}
	return lo, true
}

func (a *atom) lower() (int64, bool) {
	switch a.op {
	case opName:
		return 1, true
	case opFloor, opCeil:
		x, ok := a.args[0].lower()
		y, isNum := a.args[1].Const()
		switch {
		case ok && isNum && y > 0:
			return divInt(a.op, x, y), true
		case ok && x >= 0:
			if y, ok := a.args[1].lower(); ok && y > 0 {
				return 0, true
			}
		}
		return 0, false
	}
	best, any := int64(math.MinInt64), false
	for i, x := range a.args {
		lo, ok := x.lower()
		if a.op == opMin {
			if !ok {
				return 0, false
			}
			if i == 0 || lo < best {
				best = lo
			}
			any = true
		} else if ok {
			best, any = max(best, lo), true
		}
	}
	return best, any
}

// Grows reports whether d is proven not to decrease as a name grows.
func (d Dim) Grows(name string) (grows bool) {
	inside := func(f factor) bool { return f.atom.op != opName && f.atom.uses(name) }
	if !slices.ContainsFunc(d.terms(), func(t term) bool { return slices.ContainsFunc(t.factors, inside) }) {
		defer giveUp(func() { grows = false })
		more, ok := d.Subst(map[string]Dim{name: Sym(name).Add(Num(1))}).above(d)
		return ok && more >= 0
	}
	for _, t := range d.terms() {
		falls := t.coef < 0
		for _, f := range t.factors {
			if least, ok := f.atom.lower(); !ok || least < 0 || !f.atom.grows(name) || falls && f.atom.uses(name) {
				return false
			}
		}
	}
	return true
}

func (a *atom) grows(name string) bool {
	if a.op == opFloor || a.op == opCeil {
		by, ok := a.args[1].lower()
		return ok && by > 0 && !a.args[1].Uses(name) && a.args[0].Grows(name)
	}
	return !slices.ContainsFunc(a.args, func(x Dim) bool { return !x.Grows(name) })
}

// Uses reports whether d uses a name.
func (d Dim) Uses(name string) bool {
	return slices.ContainsFunc(d.terms(), func(t term) bool {
		return slices.ContainsFunc(t.factors, func(f factor) bool { return f.atom.uses(name) })
	})
}

func (a *atom) uses(name string) bool {
	return a.op == opName && a.name == name || slices.ContainsFunc(a.args, func(x Dim) bool { return x.Uses(name) })
}

// Names lists the names d uses, sorted.
func (d Dim) Names() []string {
	set := map[string]bool{}
	d.eachName(set)
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (d Dim) eachName(set map[string]bool) {
	for _, t := range d.terms() {
		for _, f := range t.factors {
			if f.atom.op == opName {
				set[f.atom.name] = true
			}
			for _, a := range f.atom.args {
				a.eachName(set)
			}
		}
	}
}

// Subst replaces names by formulas; names that are not in the map stay.
func (d Dim) Subst(by map[string]Dim) Dim {
	if d.poly == nil {
		return d
	}
	sum := Dim{}
	for _, t := range d.poly.terms {
		prod := Num(t.coef)
		for _, f := range t.factors {
			x := f.atom.subst(by)
			for range f.pow {
				prod = prod.Mul(x)
			}
		}
		sum = sum.Add(prod)
	}
	return sum
}

func (a *atom) subst(by map[string]Dim) Dim {
	if a.op == opName {
		if d, ok := by[a.name]; ok {
			return d
		}
		return ofAtom(a)
	}
	args := make([]Dim, len(a.args))
	for i, x := range a.args {
		args[i] = x.Subst(by)
	}
	switch a.op {
	case opFloor, opCeil:
		return divide(a.op, args[0], args[1])
	default:
		return extreme(a.op, args...)
	}
}

// Checked int64 arithmetic, as formulas come from files.

func addInt(a, b int64) int64 {
	s := a + b
	if (s > a) != (b > 0) && b != 0 {
		panic(&DimError{fmt.Sprintf("%d + %d is out of range", a, b)})
	}
	return s
}

func subInt(a, b int64) int64 {
	s := a - b
	if (s < a) != (b > 0) && b != 0 {
		panic(&DimError{fmt.Sprintf("%d - %d is out of range", a, b)})
	}
	return s
}

func mulInt(a, b int64) int64 {
	hi, lo := bits.Mul64(absInt(a), absInt(b))
	most := uint64(math.MaxInt64)
	if (a < 0) != (b < 0) {
		most++
	}
	if hi != 0 || lo > most {
		panic(&DimError{fmt.Sprintf("%d × %d is out of range", a, b)})
	}
	return a * b
}

func absInt(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func divInt(op atomOp, a, b int64) int64 {
	if b == 0 {
		panic(&DimError{fmt.Sprintf("%d divided by 0", a)})
	}
	if a == math.MinInt64 && b == -1 {
		panic(&DimError{fmt.Sprintf("%d / %d is out of range", a, b)})
	}
	q, r := a/b, a%b
	switch {
	case r == 0:
	case op == opFloor && (r < 0) != (b < 0):
		q--
	case op == opCeil && (r < 0) == (b < 0):
		q++
	}
	return q
}

func gcdInt(a, b int64) int64 {
	x, y := absInt(a), absInt(b)
	for y != 0 {
		x, y = y, x%y
	}
	if x > math.MaxInt64 {
		return 1
	}
	return int64(x)
}
