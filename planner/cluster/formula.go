package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// Formula prints bytes as ONNX Runtime's plan table does, so that scripts that read its column can
// read ours: 18432.0*batch*seq, 2048.0*batch*(seq - 1), batch*(28.0*seq - 4.0), 24.0000000000000.
func Formula(d graph.Dim) string {
	s := ofDim(d)
	for i := range s {
		s[i].exact = false
	}
	if len(s) == 0 {
		s = sum{{}}
	}
	return s.simple().String()
}

// ParseSaving reads and simplifies ONNX Runtime's text of a saving: a sum of shape × element size ×
// ratio, as in ((((a)*(b)) * 4 * 1.000000)) + ((unknown * 2 * 0.500000)).
func ParseSaving(text string) (e Expression, err error) {
	p := &savingParser{src: text}
	p.space()
	s, err := p.sum(0)
	if err == nil && p.i < len(p.src) {
		err = p.fail("an operator")
	}
	if err != nil {
		return Expression{}, err
	}
	return Expression{s.simple()}, nil
}

// savingParser is a recursive descent parser.
type savingParser struct {
	src string
	i   int
}

func (p *savingParser) fail(want string) error {
	return fmt.Errorf("saving: expected %s at byte %d of %.200q", want, p.i, p.src)
}

func (p *savingParser) space() {
	for p.i < len(p.src) && p.src[p.i] == ' ' {
		p.i++
	}
}

// eat skips an operator and the blanks behind it.
func (p *savingParser) eat(op string) bool {
	if !strings.HasPrefix(p.src[p.i:], op) {
		return false
	}
	p.i += len(op)
	p.space()
	return true
}

// deepest bounds the nesting of brackets.
const deepest = 1000

func (p *savingParser) sum(depth int) (sum, error) {
	if depth > deepest {
		return nil, p.fail("fewer brackets")
	}
	var out sum
	sign := 1.0
	if p.eat("-") {
		sign = -1
	}
	for {
		s, err := p.product(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, sum{{coef: sign, exact: true}}.mul(s)...)
		switch {
		case p.eat("+"):
			sign = 1
		case p.eat("-"):
			sign = -1
		default:
			return out.add(nil), nil
		}
	}
}

func (p *savingParser) product(depth int) (sum, error) {
	out, err := p.power(depth)
	for err == nil && !strings.HasPrefix(p.src[p.i:], "**") && p.eat("*") {
		var next sum
		if next, err = p.power(depth); err == nil {
			out = out.mul(next)
		}
	}
	return out, err
}

func (p *savingParser) power(depth int) (sum, error) {
	base, err := p.atom(depth)
	if err != nil || !p.eat("**") {
		return base, err
	}
	n, err := strconv.Atoi(p.while(isDigit))
	if err != nil || n < 1 || n > 64 {
		return nil, p.fail("a whole power up to 64")
	}
	out := base
	for range n - 1 {
		out = out.mul(base)
	}
	p.space()
	return out, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *savingParser) while(is func(byte) bool) string {
	from := p.i
	for p.i < len(p.src) && is(p.src[p.i]) {
		p.i++
	}
	return p.src[from:p.i]
}

func (p *savingParser) atom(depth int) (sum, error) {
	switch {
	case p.i == len(p.src):
		return nil, p.fail("a number, a name or a bracket")
	case p.eat("("):
		s, err := p.sum(depth + 1)
		if err == nil && !p.eat(")") {
			err = p.fail("a closing bracket")
		}
		return s, err
	case isDigit(p.src[p.i]):
		text := p.while(func(c byte) bool { return isDigit(c) || c == '.' })
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, p.fail("a number")
		}
		p.space()
		return sum{{coef: x, exact: !strings.Contains(text, ".")}}.add(nil), nil
	}
	name, err := p.name()
	p.space()
	if d, wrong := graph.ParseDim(name); err == nil && wrong == nil && strings.HasSuffix(name, ")") {
		return ofDim(d), nil
	}
	return sum{{1, true, []power{{name: name, pow: 1}}}}, err
}

// name reads a name, bare or in quotes, or an operation with its arguments.
func (p *savingParser) name() (string, error) {
	if p.src[p.i] == '"' {
		quoted, err := strconv.QuotedPrefix(p.src[p.i:])
		if err != nil {
			return "", p.fail("a quoted name")
		}
		p.i += len(quoted)
		return quoted, nil
	}
	from := p.i
	if p.while(isWord) == "" {
		return "", p.fail("a number, a name or a bracket")
	}
	if p.i == len(p.src) || p.src[p.i] != '(' {
		return p.src[from:p.i], nil
	}
	for open := 0; p.i < len(p.src); p.i++ {
		switch p.src[p.i] {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				p.i++
				return p.src[from:p.i], nil
			}
		}
	}
	return "", p.fail("a closing bracket")
}
