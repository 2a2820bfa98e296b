package graph

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Print writes the text form; package documentation gives its grammar. Parse
// reads it back to the same graph, except for the numbers of large constants
// and parameters, which are not text.
func (g *Graph) Print(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	p := &printer{buffer}
	if g.Name != "" {
		p.line("graph ", name(g.Name))
	}
	for _, r := range g.Recorded {
		p.line("recorded ", name(r.Name), " ", quote(r.Value))
	}
	for _, v := range g.Values {
		if v.Kind != Computed {
			p.definition(v)
		}
	}
	phase := Forward
	for _, n := range g.Nodes {
		if n.Phase != phase {
			phase = n.Phase
			p.line(phase.String(), ":")
		}
		p.node(n)
	}
	for _, v := range g.Outputs {
		p.line("output ", name(v.Name))
	}
	if g.Loss != nil {
		p.line("loss ", name(g.Loss.Name))
	}
	for _, u := range g.Updates {
		p.line("update ", name(u.State.Name), " = ", name(u.New.Name))
	}
	for _, d := range g.Grads {
		p.line("grad ", name(d.Param.Name), " = ", name(d.Grad.Name))
	}
	for _, h := range g.Holds {
		p.line("hold ", name(h.Value.Name), " until ", name(h.Until.Name))
	}
	for _, a := range g.Assumed {
		p.line("assume ", a.A.String(), " == ", a.B.String(), " @", name(a.Node))
	}
	return buffer.Flush()
}

// String is the text form.
func (g *Graph) String() string {
	var sb strings.Builder
	g.Print(&sb) // a strings.Builder does not fail
	return sb.String()
}

// String is the node's line of the text form.
func (n *Node) String() string {
	var sb strings.Builder
	p := &printer{&sb}
	p.node(n)
	return strings.TrimSuffix(sb.String(), "\n")
}

type printer struct {
	w interface { // a bufio.Writer or strings.Builder: errors need no checks
		io.StringWriter
		io.ByteWriter
	}
}

func (p *printer) line(parts ...string) {
	for _, s := range parts {
		p.w.WriteString(s)
	}
	p.w.WriteByte('\n')
}

func name(s string) string {
	if isIdent(s) && s != "_" && !keywords[s] {
		return s
	}
	return quote(s)
}

// quote is a faster strconv.Quote for the usual names, which need no escapes.
func quote(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.Quote(s)
		}
	}
	return `"` + s + `"`
}

// keywords begin lines of their own.
var keywords = map[string]bool{
	"graph": true, "recorded": true, "output": true, "loss": true, "update": true, "grad": true, "hold": true, "assume": true,
	"forward": true, "backward": true,
}

func (p *printer) definition(v *Value) {
	p.w.WriteString(name(v.Name))
	p.w.WriteByte(' ')
	p.w.WriteString(v.Type.String())
	p.w.WriteString(v.Shape.String())
	p.w.WriteString(" = ")
	p.w.WriteString(v.Kind.String())
	if v.Kind == Const {
		p.w.WriteByte(' ')
		p.w.WriteString(v.contents())
	}
	p.w.WriteByte('\n')
}

// contents is a constant's numbers if they are few, else the word data.
func (v *Value) contents() string {
	if v.Ints != nil {
		return braces(len(v.Ints), func(i int) string { return v.Ints[i].String() })
	}
	if v.Data == nil || v.Data.Len() > MaxInts*v.Type.Size() {
		return "data"
	}
	b, err := v.Data.Bytes()
	if err != nil {
		return "data"
	}
	return tensorText(&Tensor{Type: v.Type, Bytes: b}, len(b)/int(v.Type.Size()))
}

func tensorText(x *Tensor, n int) string {
	return braces(n, func(i int) string {
		switch {
		case x.Type == Float64:
			return strconv.FormatFloat(x.Float(i), 'g', -1, 64)
		case x.Type.IsReal():
			return strconv.FormatFloat(x.Float(i), 'g', -1, 32)
		case x.Type == Uint64:
			return strconv.FormatUint(uint64(x.Int(i)), 10)
		}
		return strconv.FormatInt(x.Int(i), 10)
	})
}

func braces(n int, item func(int) string) string {
	var sb strings.Builder
	sb.WriteByte('{')
	for i := range n {
		if i > 0 {
			sb.WriteString(", ")
		}
		sb.WriteString(item(i))
	}
	sb.WriteByte('}')
	return sb.String()
}

func (p *printer) node(n *Node) {
	for i, v := range n.Outputs {
		if i > 0 {
			p.w.WriteString(", ")
		}
		if v == nil {
			p.w.WriteByte('_')
			continue
		}
		p.w.WriteString(name(v.Name))
		p.w.WriteByte(' ')
		p.w.WriteString(v.Type.String())
		p.w.WriteString(v.Shape.String())
	}
	p.w.WriteString(" = ")
	p.call(n, func(v *Value) string { return v.Name })
	if first := n.first(); first == nil || first.Name != n.Name {
		p.w.WriteString(" @")
		p.w.WriteString(name(n.Name))
	}
	p.w.WriteByte('\n')
}

// call prints a node's operator, its inputs under the given names, and its attributes.
func (p *printer) call(n *Node, named func(*Value) string) {
	p.w.WriteString(n.Op.FullName())
	p.w.WriteByte('(')
	for i, v := range n.Inputs {
		if i > 0 {
			p.w.WriteString(", ")
		}
		if v == nil {
			p.w.WriteByte('_')
		} else {
			p.w.WriteString(name(named(v)))
		}
	}
	p.w.WriteByte(')')
	for _, a := range n.Attrs {
		p.w.WriteByte(' ')
		p.w.WriteString(a.Name)
		p.w.WriteByte('=')
		p.w.WriteString(attrText(a.Value))
	}
}

// first is the first output that is not omitted.
func (n *Node) first() *Value {
	for _, v := range n.Outputs {
		if v != nil {
			return v
		}
	}
	return nil
}

func attrText(v any) string {
	switch x := v.(type) {
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return floatText(x)
	case string:
		return strconv.Quote(x)
	case []int64:
		return brackets(len(x), func(i int) string { return strconv.FormatInt(x[i], 10) })
	case []float64:
		return brackets(len(x), func(i int) string { return floatText(x[i]) })
	case []string:
		return brackets(len(x), func(i int) string { return strconv.Quote(x[i]) })
	case *Tensor:
		s := make(Shape, len(x.Shape))
		for i, d := range x.Shape {
			s[i] = Num(int64(d))
		}
		return x.Type.String() + s.String() + tensorText(x, x.Len())
	}
	panic("graph: attribute of unknown kind")
}

// floatText always has a point or an exponent, to be told from an integer.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if strings.ContainsAny(s, ".eEIN") { // Inf and NaN are floats by themselves
		return s
	}
	return s + ".0"
}

func brackets(n int, item func(int) string) string {
	s := braces(n, item)
	return "[" + s[1:len(s)-1] + "]"
}
