package graph

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// String prints the formula as people write it: 64*batch*seq, floor(seq/2),
// max(a, b), batch*seq**2 + 1. ParseDim reads it back.
func (d Dim) String() string {
	if d.poly == nil {
		return strconv.FormatInt(d.num, 10)
	}
	return d.poly.String()
}

func printTerms(ts []term) string {
	var sb strings.Builder
	for i, t := range ts {
		c := absInt(t.coef)
		switch {
		case i == 0 && t.coef < 0:
			sb.WriteByte('-')
		case i > 0 && t.coef < 0:
			sb.WriteString(" - ")
		case i > 0:
			sb.WriteString(" + ")
		}
		if c != 1 || len(t.factors) == 0 {
			sb.WriteString(strconv.FormatUint(c, 10))
			if len(t.factors) > 0 {
				sb.WriteByte('*')
			}
		}
		for j, f := range t.factors {
			if j > 0 {
				sb.WriteByte('*')
			}
			sb.WriteString(f.atom.text)
			if f.pow > 1 {
				sb.WriteString("**")
				sb.WriteString(strconv.Itoa(f.pow))
			}
		}
	}
	return sb.String()
}

// quoteName quotes a name unless the grammar can read it without.
func quoteName(s string) string {
	if isIdent(s) && s != "floor" && s != "ceil" && s != "max" && s != "min" {
		return s
	}
	return strconv.Quote(s)
}

func isIdent(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// ParseDim reads a formula: numbers, names (quoted if not identifiers), + - *
// / // **, parentheses, floor(a/b), ceil(a/b), max(…) and min(…). A division
// outside floor and ceil rounds down.
func ParseDim(s string) (d Dim, err error) {
	l := &lexer{src: s}
	defer l.rescue(&err)
	l.next()
	d = l.sum(0)
	if l.tok.kind != tokEOF {
		l.fail("unexpected %s", l.tok)
	}
	return d, nil
}

const (
	maxNesting  = 100
	maxSumPower = 4
)

func (l *lexer) sum(depth int) Dim {
	first := l.product(depth, false)
	if !l.tok.is("+") && !l.tok.is("-") {
		return first
	}
	// Merge all terms at once, so that long sums do not take quadratic time.
	ts := slices.Clone(first.terms())
	for l.tok.is("+") || l.tok.is("-") {
		minus := l.tok.is("-")
		l.next()
		ts = append(ts, l.product(depth, minus).terms()...)
	}
	return ofTerms(ts)
}

// product reads factors; minus negates the product.
func (l *lexer) product(depth int, minus bool) Dim {
	d := Dim{}
	if minus && l.isLeast() {
		d, minus = l.least(), false
	} else {
		d = l.factor(depth)
	}
	for l.tok.is("*") || l.tok.is("/") || l.tok.is("//") {
		op := l.tok.text
		l.next()
		r := l.factor(depth)
		if op == "*" {
			d = d.Mul(r)
		} else {
			d = d.FloorDiv(r)
		}
	}
	if minus {
		d = d.Neg()
	}
	return d
}

// factor reads signs, which bind less tightly than ** and more than the other operators.
func (l *lexer) factor(depth int) Dim {
	minus := false
	for l.tok.is("-") {
		l.next()
		if minus = !minus; minus && l.isLeast() {
			return l.least()
		}
	}
	d := l.power(depth)
	if minus {
		d = d.Neg()
	}
	return d
}

// The smallest int64 has no positive counterpart, so it is read together with its sign.

func (l *lexer) isLeast() bool {
	return l.tok.kind == tokNumber && l.tok.text == "9223372036854775808"
}

func (l *lexer) least() Dim {
	l.next()
	return Num(math.MinInt64)
}

func (l *lexer) power(depth int) Dim {
	base := l.primary(depth)
	if !l.tok.is("**") {
		return base
	}
	l.next()
	most := maxDegree
	if len(base.terms()) > 1 {
		most = maxSumPower
	}
	n, err := strconv.Atoi(l.tok.text)
	if l.tok.kind != tokNumber || err != nil || n > most {
		l.fail("an exponent must be an integer of at most %d, not %s", most, l.tok)
	}
	l.next()
	d := Num(1)
	for range n {
		d = d.Mul(base)
	}
	return d
}

func (l *lexer) primary(depth int) Dim {
	if depth > maxNesting {
		l.fail("formula nested too deeply")
	}
	t := l.tok
	switch {
	case t.kind == tokNumber:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			l.fail("%s is not a 64-bit integer", t)
		}
		l.next()
		return Num(n)
	case t.is("("):
		l.next()
		d := l.sum(depth + 1)
		l.expect(")")
		return d
	case t.kind == tokIdent || t.kind == tokString:
		l.next()
		if t.kind == tokString || !l.tok.is("(") {
			return Sym(t.text)
		}
		return l.call(t.text, depth)
	}
	l.fail("expected a number, a name or (, not %s", t)
	panic("unreachable")
}

func (l *lexer) call(fn string, depth int) Dim {
	l.next()
	switch fn {
	case "floor":
		d := l.sum(depth + 1) // division rounds down anyway
		l.expect(")")
		return d
	case "ceil":
		// Read the argument as one quotient, to round it up.
		a, b := l.numerator(depth+1), Num(1)
		if l.tok.is("/") || l.tok.is("//") {
			l.next()
			b = l.factor(depth + 1)
		}
		l.expect(")")
		return a.CeilDiv(b)
	case "max", "min":
		op := opMax
		if fn == "min" {
			op = opMin
		}
		args := []Dim{l.sum(depth + 1)}
		for l.tok.is(",") {
			if len(args) == maxArgs {
				l.fail("%s of more than %d", fn, maxArgs)
			}
			l.next()
			args = append(args, l.sum(depth+1))
		}
		l.expect(")")
		return extreme(op, args...)
	}
	l.fail("unknown function %q; available: floor, ceil, max, min", fn)
	panic("unreachable")
}

// numerator reads a product without division.
func (l *lexer) numerator(depth int) Dim {
	d := l.factor(depth)
	for l.tok.is("*") {
		l.next()
		d = d.Mul(l.factor(depth))
	}
	return d
}

// Binding assigns numbers to names and evaluates formulas.
type Binding struct {
	values map[string]int64
	memo   map[*poly]int64
}

// Bind makes a Binding. Every size must be at least 1.
func Bind(values map[string]int64) (*Binding, error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v := values[name]; v < 1 {
			return nil, fmt.Errorf("dim %s=%d: sizes must be at least 1", name, v)
		}
	}
	return &Binding{values: values, memo: map[*poly]int64{}}, nil
}

// UnboundError reports a name without a value.
type UnboundError struct{ Name, Formula string }

func (e *UnboundError) Error() string {
	return fmt.Sprintf("dim %q has no value (needed for %s)", e.Name, e.Formula)
}

// Eval is the number that d stands for.
func (b *Binding) Eval(d Dim) (n int64, err error) {
	if d.poly == nil {
		return d.num, nil
	}
	if n, ok := b.memo[d.poly]; ok {
		return n, nil
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
			b.memo[d.poly] = n
		case *DimError:
			err = fmt.Errorf("%s: %w", d, r)
		case *UnboundError:
			err = r
		default:
			panic(r)
		}
	}()
	return b.eval(d, d), nil
}

// Shape evaluates every dim.
func (b *Binding) Shape(s Shape) ([]int, error) {
	out := make([]int, len(s))
	for i, d := range s {
		n, err := b.Eval(d)
		if err != nil {
			return nil, err
		}
		if n < 0 || int64(int(n)) != n {
			return nil, fmt.Errorf("dim %s = %d is out of range", d, n)
		}
		out[i] = int(n)
	}
	return out, nil
}

func (b *Binding) eval(d, whole Dim) int64 {
	if d.poly == nil {
		return d.num
	}
	var sum int64
	for _, t := range d.poly.terms {
		p := t.coef
		for _, f := range t.factors {
			x := b.evalAtom(f.atom, whole)
			for range f.pow {
				p = mulInt(p, x)
			}
		}
		sum = addInt(sum, p)
	}
	return sum
}

func (b *Binding) evalAtom(a *atom, whole Dim) int64 {
	if a.op == opName {
		v, ok := b.values[a.name]
		if !ok {
			panic(&UnboundError{a.name, whole.String()})
		}
		return v
	}
	x := b.eval(a.args[0], whole)
	for _, arg := range a.args[1:] {
		y := b.eval(arg, whole)
		switch a.op {
		case opMax:
			x = max(x, y)
		case opMin:
			x = min(x, y)
		default:
			x = divInt(a.op, x, y)
		}
	}
	return x
}
