package onnx

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// ONNX has no constants like batch*seq. They are written as nodes that compute them from the shapes
// of the inputs, which reading folds back to formulas. This is the only place of the package that
// uses operators by name.
const (
	opShape   = "Shape"   // one dim of an input
	opAdd     = "Add"     // a + b
	opSub     = "Sub"     // a - b
	opMul     = "Mul"     // a × b
	opDiv     = "Div"     // a / b, rounded towards 0
	opMod     = "Mod"     // a − b⌊a/b⌋
	opMax     = "Max"     // max(a, b, …)
	opMin     = "Min"     // min(a, b, …)
	opConcat  = "Concat"  // all the elements
	opReshape = "Reshape" // for ranks other than 1
	opCast    = "Cast"    // for types other than int64
)

// chain writes such nodes. Intermediate values are int64[1].
type chain struct {
	e    *encoder
	made map[string]string // by formula or number, the name of its value
}

// value writes the nodes of a constant whose contents are formulas.
func (c *chain) value(v *graph.Value) error {
	last := v.Name
	elems := make([]string, len(v.Ints))
	for i, d := range v.Ints {
		name, err := c.dim(d)
		if err != nil {
			return fmt.Errorf("const %q: %w", v.Name, err)
		}
		elems[i] = name
	}
	step := func(final bool) string {
		if final {
			return last
		}
		return c.e.fresh(last + "/list")
	}
	flat, plain := v.Rank() == 1, v.Type == graph.Int64
	at := step(flat && plain)
	c.node(opConcat, at, elems, graph.Attr{Name: "axis", Value: int64(0)})
	if !flat {
		shape := make([]int64, v.Rank())
		for i, d := range v.Shape {
			shape[i], _ = d.Const()
		}
		to := step(plain)
		c.node(opReshape, to, []string{at, c.ints(shape)})
		at = to
	}
	if !plain {
		c.node(opCast, last, []string{at}, graph.Attr{Name: "to", Value: int64(v.Type)})
	}
	return nil
}

func (c *chain) node(op, out string, in []string, attrs ...graph.Attr) {
	var b []byte
	for _, name := range in {
		b = appendText(b, nodeInput, name)
	}
	b = appendText(b, nodeOutput, out)
	b = appendText(b, nodeName, out)
	b = appendText(b, nodeOp, op)
	for _, a := range attrs {
		b = appendBytes(b, nodeAttr, appendAttr(nil, a))
	}
	c.e.addNode(b)
}

// op writes a node with a generated name, or returns an equal one's.
func (c *chain) op(op string, in ...string) string {
	key := op + "\x00" + strings.Join(in, "\x00")
	if name, ok := c.made[key]; ok {
		return name
	}
	name := c.e.fresh("shape/" + strings.ToLower(op))
	c.made[key] = name
	c.node(op, name, in)
	return name
}

// ints writes an int64 initializer.
func (c *chain) ints(ns []int64) string {
	key := fmt.Sprint(ns)
	if name, ok := c.made[key]; ok {
		return name
	}
	name := c.e.fresh("shape/numbers")
	c.made[key] = name
	x := graph.TensorOf(graph.Int64, ns, len(ns))
	head := c.e.tensorHead(graph.Int64, graph.Dims(int64(len(ns))))
	c.e.addTensor(appendText(head, tensorName, name), part{bytes: x.Bytes})
	return name
}

func (c *chain) number(n int64) string { return c.ints([]int64{n}) }

// symbol computes a name's size from the shapes of the inputs: from a dim that is a linear
// function of it.
func (c *chain) symbol(name string) (string, error) {
	key := "name\x00" + name
	if made, ok := c.made[key]; ok {
		return made, nil
	}
	sym := graph.Sym(name)
	type place struct {
		in        *graph.Value
		axis      int
		coef, off int64
	}
	var best *place
	for _, in := range c.e.g.Inputs {
		for i, d := range in.Shape {
			coef, off, ok := linear(d, name, sym)
			if ok && (best == nil || best.coef != 1 && coef == 1 || best.off != 0 && coef == 1 && off == 0) {
				best = &place{in, i, coef, off}
			}
		}
	}
	if best == nil {
		return "", fmt.Errorf("no input has a dim that determines %q", name)
	}
	out := c.e.fresh("shape/" + name)
	c.node(opShape, out, []string{c.e.name(best.in)},
		graph.Attr{Name: "end", Value: int64(best.axis + 1)}, graph.Attr{Name: "start", Value: int64(best.axis)})
	if best.off != 0 {
		out = c.op(opSub, out, c.number(best.off))
	}
	if best.coef != 1 {
		out = c.op(opDiv, out, c.number(best.coef))
	}
	c.made[key] = out
	return out, nil
}

// linear decomposes d into coef × name + off, if possible.
func linear(d graph.Dim, name string, sym graph.Dim) (coef, off int64, ok bool) {
	if names := d.Names(); len(names) != 1 || names[0] != name {
		return 0, 0, false
	}
	err := graph.Try(func() {
		var isNum bool
		off, isNum = d.Subst(map[string]graph.Dim{name: graph.Num(0)}).Const()
		one, isNum2 := d.Subst(map[string]graph.Dim{name: graph.Num(1)}).Const()
		coef = one - off
		ok = isNum && isNum2 && coef > 0 && d.Equal(sym.Mul(graph.Num(coef)).Add(graph.Num(off)))
	})
	return coef, off, ok && err == nil
}

// dim writes the nodes of a formula, parsing its text.
func (c *chain) dim(d graph.Dim) (name string, err error) {
	if n, ok := d.Const(); ok {
		return c.number(n), nil
	}
	f := &formula{chain: c, text: d.String()}
	defer func() {
		if p := recover(); p != nil {
			fe, ok := p.(*formulaError)
			if !ok {
				panic(p)
			}
			err = fe.err
		}
	}()
	name = f.sum()
	if f.at != len(f.text) {
		panic(fmt.Sprintf("onnx: formula %q has something after byte %d", f.text, f.at))
	}
	return name, nil
}

// formula parses the printed form of a dim (graph.Dim.String): terms with + and -, factors with *,
// powers, floor(a/b), ceil(a/b), max(…), min(…).
type formula struct {
	*chain
	text string
	at   int
}

type formulaError struct{ err error }

func (f *formula) take(s string) bool {
	if strings.HasPrefix(f.text[f.at:], s) {
		f.at += len(s)
		return true
	}
	return false
}

func (f *formula) must(s string) {
	if !f.take(s) {
		panic(fmt.Sprintf("onnx: formula %q: %q expected at byte %d", f.text, s, f.at))
	}
}

func (f *formula) sum() string {
	var total string
	if f.take("-") {
		total = f.op(opSub, f.number(0), f.product())
	} else {
		total = f.product()
	}
	for {
		switch {
		case f.take(" + "):
			total = f.op(opAdd, total, f.product())
		case f.take(" - "):
			total = f.op(opSub, total, f.product())
		default:
			return total
		}
	}
}

func (f *formula) product() string {
	p := f.power()
	for !strings.HasPrefix(f.text[f.at:], "**") && f.take("*") {
		p = f.op(opMul, p, f.power())
	}
	return p
}

func (f *formula) power() string {
	base := f.primary()
	if !f.take("**") {
		return base
	}
	p := base
	for range f.digits() - 1 {
		p = f.op(opMul, p, base)
	}
	return p
}

func (f *formula) digits() int64 {
	start := f.at
	for f.at < len(f.text) && f.text[f.at] >= '0' && f.text[f.at] <= '9' {
		f.at++
	}
	n, err := strconv.ParseInt(f.text[start:f.at], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("onnx: formula %q: %v", f.text, err))
	}
	return n
}

func (f *formula) primary() string {
	switch c := f.text[f.at]; {
	case c >= '0' && c <= '9':
		return f.number(f.digits())
	case f.take("floor("):
		return f.quotient(false)
	case f.take("ceil("):
		return f.quotient(true)
	case f.take("max("):
		return f.list(opMax)
	case f.take("min("):
		return f.list(opMin)
	case f.take("("):
		s := f.sum()
		f.must(")")
		return s
	}
	name := ""
	if q, err := strconv.QuotedPrefix(f.text[f.at:]); err == nil {
		f.at += len(q)
		name, _ = strconv.Unquote(q)
	} else {
		start := f.at
		for f.at < len(f.text) && !strings.ContainsRune(" */,)", rune(f.text[f.at])) {
			f.at++
		}
		name = f.text[start:f.at]
	}
	out, err := f.symbol(name)
	if err != nil {
		panic(&formulaError{err})
	}
	return out
}

func (f *formula) list(op string) string {
	in := []string{f.sum()}
	for f.take(", ") {
		in = append(in, f.sum())
	}
	f.must(")")
	return f.op(op, in...)
}

// quotient writes the argument of floor or ceil. ONNX's division rounds towards 0, which is down
// only if both operands are not negative.
func (f *formula) quotient(up bool) string {
	start := f.at
	a := f.product()
	num := f.text[start:f.at]
	f.must("/")
	start = f.at
	b := f.primary()
	den := f.text[start:f.at]
	f.must(")")
	if up {
		a = f.op(opSub, f.op(opAdd, a, b), f.number(1))
	}
	if atLeast(num, 0) && atLeast(den, 1) {
		return f.op(opDiv, a, b)
	}
	return f.op(opDiv, f.op(opSub, a, f.op(opMod, a, b)), b)
}

func atLeast(formula string, least int64) bool {
	d, err := graph.ParseDim(formula)
	if err != nil {
		return false
	}
	c, known := d.Compare(graph.Num(least - 1))
	return known && c > 0
}
