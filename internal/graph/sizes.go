package graph

import "fmt"

// Sizes finds the sizes of named dims from the shapes that inputs have: those of plain names first, then those of formulas
// coef·name + offset. An input whose shape is nil tells nothing; others have the rank of the value.
func Sizes(inputs []*Value, shapeOf func(*Value) []int) (map[string]int64, error) {
	dims := map[string]int64{}
	for _, formulas := range []bool{false, true} { // a name in a formula may also stand alone
		for _, v := range inputs {
			shape := shapeOf(v)
			for i, n := range shape {
				name, coef, off, ok := linear(v.Shape[i])
				if !ok || formulas == (coef == 1 && off == 0) {
					continue
				}
				is := int64(n) - off
				was, known := dims[name]
				if formulas && (known || is%coef != 0) {
					continue // who binds the dims checks the formula when all names are known
				}
				if known && was != is {
					return nil, fmt.Errorf("input %q has shape %v, the model takes %s, and %s is %d", v.Name, shape, v.Shape, name, was)
				}
				dims[name] = is / coef
			}
		}
	}
	return dims, nil
}

// linear writes a dim as coef × name + off, if possible.
func linear(d Dim) (name string, coef, off int64, ok bool) {
	names := d.Names()
	if len(names) != 1 {
		return "", 0, 0, false
	}
	name = names[0]
	err := Try(func() {
		at := func(n int64) int64 {
			m, is := d.Subst(map[string]Dim{name: Num(n)}).Const()
			ok = is
			return m
		}
		off = at(0)
		coef = at(1) - off
		ok = ok && coef > 0 && d.Equal(Sym(name).Mul(Num(coef)).Add(Num(off)))
	})
	return name, coef, off, ok && err == nil
}
