package graph

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	"memopt/internal/golden"

	"pgregory.net/rapid"
)

// TestDims reads testdata/dims.txt, lines of input => output: what is parsed,
// and how it prints once it is simplified.
func TestDims(t *testing.T) {
	const path = "testdata/dims.txt"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for sc := bufio.NewScanner(strings.NewReader(string(src))); sc.Scan(); {
		in, _, ok := strings.Cut(sc.Text(), " => ")
		if !ok {
			fmt.Fprintln(&out, sc.Text())
			continue
		}
		got := ""
		if d, err := ParseDim(in); err != nil {
			got = "error " + err.Error()
		} else {
			got = d.String()
			if back, err := ParseDim(got); err != nil || !back.Equal(d) {
				t.Errorf("%s is read as %s, %v", got, back, err)
			}
		}
		fmt.Fprintf(&out, "%s => %s\n", in, got)
	}
	golden.File(t, path, out.String())
}

// expr is a formula as a person would compute it: a tree, nothing simplified.
type expr struct {
	op   string
	name string
	num  int64
	a, b *expr
}

// arith is the operators of expr: on Dims and on plain numbers.
var arith = map[string]struct {
	dim func(a, b Dim) Dim
	num func(a, b *big.Int) *big.Int // nil: there is no such number
}{
	"+":     {Dim.Add, func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }},
	"-":     {Dim.Sub, func(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }},
	"*":     {Dim.Mul, func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }},
	"floor": {Dim.FloorDiv, floorBig},
	"ceil": {Dim.CeilDiv, func(a, b *big.Int) *big.Int {
		if q := floorBig(new(big.Int).Neg(a), b); q != nil {
			return q.Neg(q)
		}
		return nil
	}},
	"mod": {Dim.Mod, func(a, b *big.Int) *big.Int {
		if q := floorBig(a, b); q != nil {
			return q.Sub(a, q.Mul(q, b))
		}
		return nil
	}},
	"max": {Dim.Max, func(a, b *big.Int) *big.Int {
		if a.Cmp(b) < 0 {
			return b
		}
		return a
	}},
	"min": {Dim.Min, func(a, b *big.Int) *big.Int {
		if a.Cmp(b) > 0 {
			return b
		}
		return a
	}},
}

func floorBig(a, b *big.Int) *big.Int {
	if b.Sign() == 0 {
		return nil
	}
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Sign() != 0 && r.Sign() != b.Sign() {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

var exprOps = []string{"+", "+", "-", "*", "*", "floor", "floor", "ceil", "mod", "max", "min"}

// exprNames need quotes in some places and none in others.
var exprNames = []string{"batch", "seq", "max", "past-1"}

func drawExpr(t *rapid.T, depth int) *expr {
	switch k := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case depth == 0 && k < 6 || k < 2:
		return &expr{op: "name", name: rapid.SampledFrom(exprNames[:3]).Draw(t, "name")}
	case depth == 0 || k < 3:
		return &expr{op: "num", num: int64(rapid.IntRange(-4, 12).Draw(t, "num"))}
	}
	op := rapid.SampledFrom(exprOps).Draw(t, "op")
	return &expr{op: op, a: drawExpr(t, depth-1), b: drawExpr(t, depth-1)}
}

// dim builds the formula; nil if it is too large or divides by 0.
func (e *expr) dim() (d Dim, err error) {
	var build func(e *expr) Dim
	build = func(e *expr) Dim {
		switch e.op {
		case "name":
			return Sym(e.name)
		case "num":
			return Num(e.num)
		}
		return arith[e.op].dim(build(e.a), build(e.b))
	}
	err = Try(func() { d = build(e) })
	return d, err
}

// eval is the number that the formula stands for; nil if it divides by 0.
func (e *expr) eval(values map[string]int64) *big.Int {
	switch e.op {
	case "name":
		return big.NewInt(values[e.name])
	case "num":
		return big.NewInt(e.num)
	}
	a, b := e.a.eval(values), e.b.eval(values)
	if a == nil || b == nil {
		return nil
	}
	return arith[e.op].num(a, b)
}

// shuffled writes the same formula in another way.
func (e *expr) shuffled(t *rapid.T) *expr {
	if e.a == nil {
		return e
	}
	a, b := e.a.shuffled(t), e.b.shuffled(t)
	flip := rapid.Bool().Draw(t, "flip")
	switch {
	case e.op == "-" && flip: // a − b = −1·b + a
		return &expr{op: "+", a: &expr{op: "*", a: b, b: &expr{op: "num", num: -1}}, b: a}
	case !flip || strings.Contains("- floor ceil mod", e.op):
		return &expr{op: e.op, a: a, b: b}
	case e.op == "*" && (b.op == "+" || b.op == "-"): // a·(b ± c) = a·b ± a·c
		return &expr{op: b.op, a: &expr{op: "*", a: a, b: b.a}, b: &expr{op: "*", a: b.b, b: a}}
	case a.op == e.op: // (a ∘ b) ∘ c = a ∘ (b ∘ c)
		return &expr{op: e.op, a: a.a, b: &expr{op: e.op, a: a.b, b: b}}
	}
	return &expr{op: e.op, a: b, b: a}
}

func (e *expr) String() string {
	switch e.op {
	case "name":
		return e.name
	case "num":
		return fmt.Sprint(e.num)
	}
	return fmt.Sprintf("%s(%s, %s)", e.op, e.a, e.b)
}

func drawValues(t *rapid.T) map[string]int64 {
	values := map[string]int64{}
	for _, name := range exprNames {
		values[name] = rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(1, 1000)).Draw(t, name)
	}
	return values
}

// evalDim evaluates under a new Binding.
func evalDim(t *rapid.T, d Dim, values map[string]int64) (int64, error) {
	b, err := Bind(values)
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.Eval(d)
	again, err2 := b.Eval(d)
	if again != n || (err == nil) != (err2 == nil) {
		t.Fatalf("%s is %d (%v), then %d (%v)", d, n, err, again, err2)
	}
	return n, err
}

// tooLarge tells formulas that left int64 or the size that is allowed; nothing
// else may go wrong with a formula that has a value.
func tooLarge(err error) bool {
	return strings.Contains(err.Error(), "out of range") || strings.Contains(err.Error(), "too large")
}

func TestDimHasTheValueOfItsTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, 4)
		d, err := e.dim()
		for range 4 {
			values := drawValues(t)
			want := e.eval(values)
			if want == nil {
				continue
			}
			if err != nil {
				if !tooLarge(err) {
					t.Fatalf("%s: %v", e, err)
				}
				continue
			}
			got, err := evalDim(t, d, values)
			if err != nil && !tooLarge(err) || err == nil && (!want.IsInt64() || got != want.Int64()) {
				t.Fatalf("%s\n= %s\nis %d (%v) for %v, should be %d", e, d, got, err, values, want)
			}
		}
	})
}

func TestDimTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, 4)
		d, err := e.dim()
		if err != nil {
			t.Skip(err)
		}
		back, err := ParseDim(d.String())
		if err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		if !back.Equal(d) || back.String() != d.String() {
			t.Fatalf("%s\nis read as\n%s", d, back)
		}
	})
}

func TestDimEqualForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, 4)
		other := e.shuffled(t)
		d, err := e.dim()
		d2, err2 := other.dim()
		if err != nil || err2 != nil {
			t.Skip(err, err2)
		}
		if !d.Equal(d2) {
			t.Fatalf("%s is %s\n%s is %s", e, d, other, d2)
		}
	})
}

func TestDimCompare(t *testing.T) {
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		e1, e2 := drawExpr(t, 3), drawExpr(t, 3)
		d1, err1 := e1.dim()
		d2, err2 := e2.dim()
		if err1 != nil || err2 != nil {
			t.Skip(err1, err2)
		}
		c, ok := d1.Compare(d2)
		if back, ok2 := d2.Compare(d1); ok2 != ok || back != -c {
			t.Fatalf("%s against %s is %d %v, the other way %d %v", d1, d2, c, ok, back, ok2)
		}
		if !ok {
			return
		}
		known++
		for range 5 {
			values := drawValues(t)
			n1, n2 := e1.eval(values), e2.eval(values)
			if n1 != nil && n2 != nil && n1.Cmp(n2) != c {
				t.Fatalf("%s against %s is proven to be %d, but for %v they are %d and %d", d1, d2, c, values, n1, n2)
			}
		}
	})
	if known == 0 {
		t.Error("nothing was ever proven")
	}
}

func TestDimGrows(t *testing.T) {
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, 3)
		d, err := e.dim()
		if err != nil {
			t.Skip(err)
		}
		values := drawValues(t)
		for _, name := range d.Names() {
			if !d.Grows(name) {
				continue
			}
			known++
			less := e.eval(values)
			more := maps.Clone(values)
			more[name] += rapid.Int64Range(1, 9).Draw(t, "more")
			if n := e.eval(more); less != nil && n != nil && n.Cmp(less) < 0 {
				t.Fatalf("%s grows with %s, but is %d for %v and %d for %v", d, name, less, values, n, more)
			}
		}
	})
	if known == 0 {
		t.Error("nothing was ever proven")
	}
	for text, want := range map[string]bool{
		"2*a*b + 3": true, "b - a": false, "floor(a*b/512)": true, "floor(b/a)": false, "floor(b/2) - 3*b": true,
		"max(a, b)*ceil(a/3)": true, "(b - 5)*a": false, "min(8*a*b - 8*a, 99)": true, "max(a - 5, 0)": true, "a*floor((a - 5)/2)": false,
	} {
		d, err := ParseDim(text)
		if err != nil {
			t.Fatal(err)
		}
		if d.Grows("a") != want {
			t.Errorf("%s grows with a: %v", text, !want)
		}
	}
}

func TestDimSubst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t, 3)
		by := map[string]*expr{"batch": drawExpr(t, 2), "seq": drawExpr(t, 2)}
		d, err := e.dim()
		if err != nil {
			t.Skip(err)
		}
		dims, values := map[string]Dim{}, drawValues(t)
		inner := map[string]int64{"max": values["max"], "past-1": values["past-1"]}
		for _, name := range []string{"batch", "seq"} {
			x, err := by[name].dim()
			if err != nil {
				t.Skip(err)
			}
			n := by[name].eval(values)
			if n == nil || !n.IsInt64() || n.Int64() < 1 {
				t.Skip("not a size")
			}
			dims[name], inner[name] = x, n.Int64()
		}
		var got Dim
		if err := Try(func() { got = d.Subst(dims) }); err != nil {
			if e.eval(inner) != nil && !tooLarge(err) {
				t.Fatalf("%s with %v: %v", d, dims, err)
			}
			t.Skip(err)
		}
		want := e.eval(inner)
		if want == nil {
			t.Skip("divided by 0")
		}
		n, err := evalDim(t, got, values)
		if err != nil && !tooLarge(err) || err == nil && big.NewInt(n).Cmp(want) != 0 {
			t.Fatalf("%s with %v is %s, which is %d (%v), should be %d", d, dims, got, n, err, want)
		}
	})
}

// TestDimOverflow: what leaves int64 is an error, and never a wrapped number.
func TestDimOverflow(t *testing.T) {
	edge := []int64{0, 1, -1, 2, 3, -3, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 62, -1 << 62, 1 << 32, 3037000500}
	for op, f := range arith {
		for _, a := range edge {
			for _, b := range edge {
				want := f.num(big.NewInt(a), big.NewInt(b))
				check := func(form string, d Dim, err error) {
					switch {
					case err != nil:
						if want != nil && want.IsInt64() && form == "numbers" && op != "mod" {
							t.Errorf("%s(%d, %d) with %s: %v", op, a, b, form, err)
						}
					case want == nil || !want.IsInt64():
						t.Errorf("%s(%d, %d) with %s = %s, out of range", op, a, b, form, d)
					case !d.Is(want.Int64()):
						t.Errorf("%s(%d, %d) with %s = %s, should be %d", op, a, b, form, d, want)
					}
				}
				var d Dim
				err := Try(func() { d = f.dim(Num(a), Num(b)) })
				check("numbers", d, err)

				// The same numbers as coefficients: a·n and b·n with n = 1.
				one, bindErr := Bind(map[string]int64{"n": 1})
				if bindErr != nil {
					t.Fatal(bindErr)
				}
				var n int64
				err = Try(func() { d = f.dim(Num(a).Mul(Sym("n")), Num(b).Mul(Sym("n"))) })
				if err == nil {
					n, err = one.Eval(d)
				}
				check("names", Num(n), err)
			}
		}
	}
}

func TestDimErrors(t *testing.T) {
	b, err := Bind(map[string]int64{"n": math.MaxInt64, "k": 7})
	if err != nil {
		t.Fatal(err)
	}
	for formula, want := range map[string]string{
		"n + 1":                 "n + 1: 9223372036854775807 + 1 is out of range",
		"2*n":                   "2*n: 2 × 9223372036854775807 is out of range",
		"n**2":                  "n**2: 9223372036854775807 × 9223372036854775807 is out of range",
		"floor(k/(k - n + n))":  "",
		"floor(n/(k**2 - 7*k))": "floor(n/(k**2 - 7*k)): 9223372036854775807 divided by 0",
		"k + unknown":           `dim "unknown" has no value (needed for k + unknown)`,
	} {
		d, err := ParseDim(formula)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := b.Eval(d); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", formula, got, want)
		}
	}
	_, err = b.Eval(Sym("unknown"))
	if ue := (*UnboundError)(nil); !errors.As(err, &ue) || ue.Name != "unknown" {
		t.Errorf("got %v, want an UnboundError", err)
	}
	for range 20 { // the same name is blamed every time
		_, err = Bind(map[string]int64{"a": 0, "b": -1, "c": 0})
		if err == nil || err.Error() != "dim a=0: sizes must be at least 1" {
			t.Fatalf("got %v", err)
		}
	}
}

func TestBindingShape(t *testing.T) {
	b, err := Bind(map[string]int64{"n": 3})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Shape(Shape{Sym("n"), Num(4), Sym("n").Sub(Num(3))})
	if err != nil || fmt.Sprint(got) != "[3 4 0]" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err = b.Shape(Shape{Sym("n").Sub(Num(4))}); err == nil || err.Error() != "dim n - 4 = -1 is out of range" {
		t.Errorf("got %v", err)
	}
}

func TestDimNamesAndTerms(t *testing.T) {
	d, err := ParseDim("3*b*a**2 - max(floor(c/2), d) + 5")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(d.Names()); got != "[a b c d]" {
		t.Errorf("names are %s", got)
	}
	if got, want := fmt.Sprint(d.Terms()), "[{3 [{a 2} {b 1}]} {-1 [{max(d, floor(c/2)) 1}]} {5 []}]"; got != want {
		t.Errorf("terms are %s, want %s", got, want)
	}
}

// BenchmarkDim is what inference does most: the elements of a shape.
func BenchmarkDim(b *testing.B) {
	s := Shape{Sym("batch"), Num(12), Sym("seq"), Sym("seq")}
	b.ReportAllocs()
	for b.Loop() {
		s.Elems().Mul(Num(4))
	}
}
