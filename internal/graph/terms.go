package graph

// Term is one product of a formula, for printers of other notations.
type Term struct {
	Coef    int64
	Factors []Power
}

// Power is a name or an operation (as text) raised to a power.
type Power struct {
	Base string
	Pow  int
}

// Terms is the formula as a sum of products, highest degree first.
func (d Dim) Terms() []Term {
	out := make([]Term, 0, len(d.terms()))
	for _, t := range d.terms() {
		x := Term{Coef: t.coef}
		for _, f := range t.factors {
			x.Factors = append(x.Factors, Power{f.atom.text, f.pow})
		}
		out = append(out, x)
	}
	return out
}
