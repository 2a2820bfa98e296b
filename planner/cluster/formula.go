package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/memopt/graph"
)

// Formula prints bytes the way ONNX Runtime's plan table does, so that people
// and scripts that read its column can read ours: 18432.0*batch*seq,
// 2048.0*batch*(seq - 1), batch*(28.0*seq - 4.0), 24.0000000000000. Factors
// that all terms share stand in front, coefficients are floats.
func Formula(d graph.Dim) string {
	if n, ok := d.Const(); ok {
		return constant(n)
	}
	terms := d.Terms()
	shared := common(terms)
	coef, even := terms[0].Coef, true
	for _, t := range terms {
		even = even && (t.Coef == coef || t.Coef == -coef)
	}
	var parts []string
	if len(terms) == 1 || even {
		parts = append(parts, decimal(coef))
		if coef == 0 {
			parts = nil
		}
	}
	for _, f := range shared {
		parts = append(parts, power(f))
	}
	if len(terms) == 1 {
		return strings.Join(parts, "*")
	}
	var sum strings.Builder
	for i, t := range terms {
		c := t.Coef
		if even {
			c /= coef
		}
		sign := ""
		switch {
		case i == 0 && c < 0:
			sign = "-"
		case i > 0 && c < 0:
			sign = " - "
		case i > 0:
			sign = " + "
		}
		if c < 0 {
			c = -c
		}
		var fs []string
		for _, f := range t.Factors {
			if f.Pow -= powerOf(shared, f.Base); f.Pow > 0 {
				fs = append(fs, power(f))
			}
		}
		switch {
		case !even:
			fs = append([]string{decimal(c)}, fs...)
		case len(fs) == 0:
			fs = []string{strconv.FormatInt(c, 10)}
		}
		sum.WriteString(sign + strings.Join(fs, "*"))
	}
	if len(parts) == 0 {
		return sum.String()
	}
	return strings.Join(append(parts, "("+sum.String()+")"), "*")
}

// constant prints 15 significant digits, as the table does for pure numbers.
func constant(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := len(strings.TrimPrefix(s, "-"))
	return s + "." + strings.Repeat("0", max(1, 15-digits))
}

func decimal(n int64) string { return fmt.Sprintf("%d.0", n) }

func power(f graph.Power) string {
	if f.Pow == 1 {
		return f.Base
	}
	return fmt.Sprintf("%s**%d", f.Base, f.Pow)
}

// common is the product that divides every term.
func common(terms []graph.Term) []graph.Power {
	var out []graph.Power
	for _, f := range terms[0].Factors {
		for _, t := range terms[1:] {
			f.Pow = min(f.Pow, powerOf(t.Factors, f.Base))
		}
		if f.Pow > 0 {
			out = append(out, f)
		}
	}
	return out
}

func powerOf(fs []graph.Power, base string) int {
	for _, f := range fs {
		if f.Base == base {
			return f.Pow
		}
	}
	return 0
}
