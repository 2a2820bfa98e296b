package graph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lexer splits the text form into tokens for Parse and ParseDim. Errors are panics, which
// rescue turns into ordinary errors.
type lexer struct {
	src string
	pos int
	tok token
}

type tokKind uint8

const (
	tokEOF tokKind = iota
	tokNewline
	tokIdent
	tokNumber
	tokString
	tokPunct
)

type token struct {
	kind tokKind
	text string // without quotes
	pos  int
}

func (t token) is(s string) bool { return (t.kind == tokPunct || t.kind == tokIdent) && t.text == s }

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end"
	case tokNewline:
		return "the end of the line"
	case tokString:
		return strconv.Quote(t.text)
	}
	if r, _ := utf8.DecodeRuneInString(t.text); !strconv.IsPrint(r) || r == utf8.RuneError {
		return strconv.Quote(t.text)
	}
	return "«" + t.text + "»"
}

type syntaxError struct{ msg string }

func (l *lexer) fail(format string, args ...any) {
	panic(&syntaxError{l.where() + fmt.Sprintf(format, args...)})
}

// where is the line and column of the current token.
func (l *lexer) where() string {
	before := l.src[:min(l.tok.pos, len(l.src))]
	line := 1 + strings.Count(before, "\n")
	col := len(before) - strings.LastIndexByte(before, '\n')
	return fmt.Sprintf("%d:%d: ", line, col)
}

// rescue turns panics of the lexer and of dims into an error.
func (l *lexer) rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case *syntaxError:
		*err = errors.New(r.msg)
	case *DimError:
		*err = fmt.Errorf("%s%w", l.where(), r)
	default:
		panic(r)
	}
}

func (l *lexer) expect(s string) {
	if !l.tok.is(s) {
		l.fail("%s expected, not %s", s, l.tok)
	}
	l.next()
}

func (l *lexer) next() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.pos++
		case c == '#':
			for l.pos < len(l.src) && l.src[l.pos] != '\n' {
				l.pos++
			}
		default:
			l.tok = l.scan()
			return
		}
	}
	l.tok = token{kind: tokEOF, pos: l.pos}
}

func (l *lexer) scan() token {
	start := l.pos
	c := l.src[start]
	take := func(kind tokKind, more func(byte) bool) token {
		for l.pos < len(l.src) && more(l.src[l.pos]) {
			l.pos++
		}
		return token{kind, l.src[start:l.pos], start}
	}
	isLetter := func(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	switch {
	case c == '\n':
		l.pos++
		return token{tokNewline, "", start}
	case isLetter(c):
		return take(tokIdent, func(c byte) bool { return isLetter(c) || isDigit(c) })
	case isDigit(c) || c == '.' && start+1 < len(l.src) && isDigit(l.src[start+1]):
		prev := byte(0)
		return take(tokNumber, func(c byte) bool {
			ok := isDigit(c) || isLetter(c) || c == '.' || (c == '+' || c == '-') && (prev == 'e' || prev == 'E')
			prev = c
			return ok
		})
	case c == '"':
		q, err := strconv.QuotedPrefix(l.src[start:])
		if err != nil {
			l.tok = token{pos: start}
			l.fail("a quoted name does not end")
		}
		l.pos += len(q)
		s, _ := strconv.Unquote(q)
		return token{tokString, s, start}
	case strings.HasPrefix(l.src[start:], "**"), strings.HasPrefix(l.src[start:], "//"):
		l.pos += 2
		return token{tokPunct, l.src[start:l.pos], start}
	}
	_, size := utf8.DecodeRuneInString(l.src[start:])
	l.pos += size
	return token{tokPunct, l.src[start:l.pos], start}
}
