package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse reads the text form. Types on the left of a node may be left out, and must else
// be those that the operator infers. Errors name line and column.
func Parse(lib *Library, src string) (g *Graph, err error) {
	l := &lexer{src: src}
	p := &parser{lexer: l, b: NewBuilder(New(lib, ""))}
	defer l.rescue(&err)
	l.next()
	for l.tok.kind != tokEOF {
		if l.tok.kind == tokNewline {
			l.next()
			continue
		}
		p.statement()
		if l.tok.kind != tokNewline && l.tok.kind != tokEOF {
			l.fail("the line should end here, not go on with %s", l.tok)
		}
	}
	if p.assumed != nil {
		p.b.Graph.Assumed = p.assumed
	}
	return p.b.Graph, nil
}

type parser struct {
	*lexer
	b       *Builder
	assumed []Assume
}

func (p *parser) statement() {
	g := p.b.Graph
	if p.tok.kind == tokIdent {
		word := p.tok
		rest := *p.lexer
		switch word.text {
		case "graph":
			p.next()
			g.Name = p.name()
			return
		case "recorded":
			p.next()
			what := p.name()
			if p.tok.kind != tokString {
				p.fail("what %s was is expected as a string, not %s", what, p.tok)
			}
			g.Recorded = append(g.Recorded, Recorded{what, p.tok.text})
			p.next()
			return
		case "forward", "backward", "update":
			p.next()
			if p.tok.is(":") {
				p.next()
				p.b.Phase = map[string]Phase{"forward": Forward, "backward": Backward, "update": Updating}[word.text]
				return
			}
			if word.text == "update" {
				state := p.value()
				p.expect("=")
				g.Updates = append(g.Updates, Update{state, p.value()})
				return
			}
			*p.lexer = rest
		case "output":
			p.next()
			g.Outputs = append(g.Outputs, p.value())
			return
		case "loss":
			p.next()
			g.Loss = p.value()
			return
		case "grad":
			p.next()
			param := p.value()
			p.expect("=")
			g.Grads = append(g.Grads, Grad{param, p.value()})
			return
		case "hold":
			p.next()
			v := p.value()
			p.expect("until")
			g.Holds = append(g.Holds, Hold{v, p.nodeNamed()})
			return
		case "assume":
			p.next()
			a := p.sum(0)
			p.expect("=")
			p.expect("=")
			b := p.sum(0)
			p.expect("@")
			p.assumed = append(p.assumed, Assume{a, b, p.name()})
			return
		}
	}
	p.assignment()
}

// nodeNamed is the node with a name, the last if there are several.
func (p *parser) nodeNamed() *Node {
	at, name := p.tok, p.name()
	for _, n := range slices.Backward(p.b.Graph.Nodes) {
		if n.Name == name {
			return n
		}
	}
	p.tok = at
	p.fail("there is no node %q before", name)
	return nil
}

// target is one name on the left of an assignment.
type target struct {
	name  string
	skip  bool // written _
	typed bool
	dtype DType
	shape Shape
	at    token
}

func (p *parser) assignment() {
	var targets []target
	for {
		t := target{at: p.tok}
		if p.tok.is("_") {
			t.skip = true
			p.next()
		} else {
			t.name = p.name()
			if p.tok.kind == tokIdent {
				t.typed = true
				t.dtype, t.shape = p.dtype(), p.shape()
			}
		}
		targets = append(targets, t)
		if !p.tok.is(",") {
			break
		}
		p.next()
	}
	p.expect("=")
	kinds := map[string]Kind{"input": Input, "param": Param, "buffer": ModelBuffer, "const": Const, "state": State}
	if kind, ok := kinds[p.tok.text]; ok && p.tok.kind == tokIdent {
		p.definition(kind, targets)
		return
	}
	p.node(targets)
}

func (p *parser) definition(kind Kind, targets []target) {
	t := targets[0]
	if len(targets) != 1 || !t.typed {
		p.fail("%s defines one value with its type, like: x f32[2, 3] = %s", kind, kind)
	}
	p.next()
	v, err := p.b.Define(kind, t.name, t.dtype, t.shape)
	if err != nil {
		p.tok = t.at
		p.fail("%s", err)
	}
	if kind != Const {
		return
	}
	if p.tok.is("data") {
		p.next()
		return
	}
	p.contents(v)
}

// contents reads {1, 2, batch} into Ints or Data of a constant.
func (p *parser) contents(v *Value) {
	if !v.Type.IsReal() {
		start := p.tok
		v.Ints = []Dim{}
		p.items("{", "}", func() { v.Ints = append(v.Ints, p.sum(0)) })
		if !v.Shape.Elems().Is(int64(len(v.Ints))) {
			p.tok = start
			p.fail("%d numbers for shape %s", len(v.Ints), v.Shape)
		}
		return
	}
	v.Data = Bytes(p.tensor(v.Type, v.Shape).Bytes)
}

func (p *parser) tensor(t DType, s Shape) *Tensor {
	start := p.tok
	var floats []float64
	var ints []int64
	p.items("{", "}", func() {
		if at := p.tok; t.IsReal() {
			floats = append(floats, p.float(at, p.literal()))
		} else {
			ints = append(ints, p.integer(t, at, p.literal()))
		}
	})
	n := len(floats) + len(ints)
	if !s.Elems().Is(int64(n)) {
		p.tok = start
		p.fail("%d numbers for shape %s", n, s)
	}
	shape := make([]int, len(s))
	for i, d := range s {
		n, ok := d.Const()
		if !ok {
			p.tok = start
			p.fail("numbers need a shape of numbers, not %s", s)
		}
		shape[i] = int(n)
	}
	x := NewTensor(t, shape...)
	for i, f := range floats {
		if x.SetFloat(i, f); t.IsFloat8() {
			x.Bytes[i] = F32ToF8(t, float32(f), !math.IsInf(f, 0))
		}
	}
	for i, n := range ints {
		x.SetInt(i, n)
	}
	return x
}

func (p *parser) node(targets []target) {
	at := p.tok
	domain, opName := "", p.word("an operator")
	for p.tok.is(".") {
		p.next()
		if domain != "" {
			domain += "."
		}
		domain += opName
		opName = p.word("an operator")
	}
	op := p.b.Graph.Lib.Find(domain, opName, 0)
	if op == nil {
		p.tok = at
		p.fail("operator %s is not in the library", fullName(domain, opName))
	}
	var in []*Value
	p.items("(", ")", func() {
		if p.tok.is("_") {
			p.next()
			in = append(in, nil)
		} else {
			in = append(in, p.value())
		}
	})
	var attrs []Attr
	for p.tok.kind == tokIdent {
		a := Attr{Name: p.word("an attribute")}
		p.expect("=")
		a.Value = p.attr()
		if ints, ok := a.Value.([]int64); ok && len(ints) == 0 {
			a.Value = emptyList(op.spec(a.Name))
		}
		attrs = append(attrs, a)
	}
	slices.SortStableFunc(attrs, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) })
	nodeName := ""
	if p.tok.is("@") {
		p.next()
		nodeName = p.name()
	}
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.name
		if nodeName == "" {
			nodeName = t.name
		}
	}
	outs, err := p.b.Node(op, nodeName, attrs, in, names)
	if err != nil {
		p.tok = at
		p.fail("%s", err)
	}
	for i, t := range targets {
		if t.typed && (outs[i].Type != t.dtype || !outs[i].Shape.Equal(t.shape)) {
			p.tok = t.at
			p.fail("%s is %s%s, not %s%s", t.name, outs[i].Type, outs[i].Shape, t.dtype, t.shape)
		}
	}
}

func (p *parser) items(open, end string, item func()) {
	p.expect(open)
	for !p.tok.is(end) {
		item()
		if !p.tok.is(",") {
			break
		}
		p.next()
	}
	p.expect(end)
}

func (p *parser) attr() any {
	switch {
	case p.tok.kind == tokString:
		s := p.tok.text
		p.next()
		return s
	case p.tok.is("["):
		var ints []int64
		var floats []float64
		var strs []string
		p.items("[", "]", func() {
			if p.tok.kind == tokString {
				strs = append(strs, p.tok.text)
				p.next()
				return
			}
			switch x := p.number().(type) {
			case int64:
				ints, floats = append(ints, x), append(floats, float64(x))
			case float64:
				floats = append(floats, x)
			}
		})
		switch {
		case strs != nil && floats == nil:
			return strs
		case strs != nil:
			p.fail("a list holds either strings or numbers")
		case len(floats) > len(ints):
			return floats
		}
		return append([]int64{}, ints...)
	case p.tok.kind == tokIdent && !p.tok.is("Inf") && !p.tok.is("NaN"):
		t := p.dtype()
		return p.tensor(t, p.shape())
	}
	return p.number()
}

// emptyList is the value of [], whose type only the attribute's declaration tells.
func emptyList(s *AttrSpec) any {
	switch {
	case s != nil && s.Kind == AttrFloats:
		return []float64{}
	case s != nil && s.Kind == AttrStrings:
		return []string{}
	}
	return []int64{}
}

// number is an int64 or a float64.
func (p *parser) number() any {
	at, s := p.tok, p.literal()
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	return p.float(at, s)
}

// literal is a number's text.
func (p *parser) literal() string {
	sign := ""
	if p.tok.is("-") || p.tok.is("+") {
		sign = p.tok.text
		p.next()
	}
	t := p.tok
	if t.kind != tokNumber && !t.is("Inf") && !t.is("NaN") {
		p.fail("a number expected, not %s", t)
	}
	p.next()
	return sign + t.text
}

func (p *parser) float(at token, s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.tok = at
		p.fail("%s is not a number", s)
	}
	return f
}

func (p *parser) integer(t DType, at token, s string) int64 {
	bits := int(8 * t.Size())
	if t == Bool {
		bits = 1
	}
	n, err := strconv.ParseInt(s, 10, bits)
	if strings.HasPrefix(t.String(), "u") || t == Bool {
		var u uint64
		u, err = strconv.ParseUint(s, 10, bits)
		n = int64(u)
	}
	if err != nil {
		p.tok = at
		p.fail("%s is not an element of type %s", s, t)
	}
	return n
}

func (p *parser) name() string {
	t := p.tok
	if t.kind != tokIdent && t.kind != tokString {
		p.fail("a name expected, not %s", t)
	}
	if t.text == "" {
		p.fail("a name cannot be empty")
	}
	p.next()
	return t.text
}

func (p *parser) word(what string) string {
	t := p.tok
	if t.kind != tokIdent {
		p.fail("%s expected, not %s", what, t)
	}
	p.next()
	return t.text
}

func (p *parser) value() *Value {
	at := p.tok
	n := p.name()
	v := p.b.Graph.byName[n]
	if v == nil {
		p.tok = at
		p.fail("no value is named %q before this line", n)
	}
	return v
}

func (p *parser) dtype() DType {
	t, ok := ParseDType(p.tok.text)
	if !ok || p.tok.kind != tokIdent {
		p.fail("an element type like f32 or i64 expected, not %s", p.tok)
	}
	p.next()
	return t
}

func (p *parser) shape() Shape {
	s := Shape{}
	p.items("[", "]", func() {
		at := p.tok
		d := p.sum(0)
		if n, ok := d.Const(); ok && n < 0 {
			p.tok = at
			p.fail("a dim cannot be %d", n)
		}
		s = append(s, d)
	})
	p.tokCheck(s)
	return s
}

// tokCheck refuses shapes whose element count does not fit 64 bits.
func (p *parser) tokCheck(s Shape) {
	if err := Try(func() { s.Elems().Mul(Num(8)) }); err != nil {
		text := s.String()
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		p.fail("shape %s: %v", text, err)
	}
}
