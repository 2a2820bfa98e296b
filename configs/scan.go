package configs

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// gjson is fast and lenient: it can tell that a text is not valid JSON, but not where. This scanner
// says where and why, and accepts only what JSON allows.

// maxDepth is how deep a config may nest. The settings need three levels.
const maxDepth = 8

// scanner walks JSON text.
type scanner struct {
	s     string
	i     int
	depth int
}

// syntaxError is a mistake in JSON text, and its offset.
type syntaxError struct {
	off int
	msg string
}

// scan checks that s is one JSON value in UTF-8, nested at most maxDepth deep.
func scan(s string) *syntaxError {
	sc := scanner{s: s}
	if err := sc.encoding(); err != nil {
		return err
	}
	sc.space()
	if sc.i == len(s) {
		return sc.fail("is empty, %s", rootForms)
	}
	if err := sc.value(); err != nil {
		return err
	}
	sc.space()
	if sc.i < len(s) {
		return sc.fail("%s after the end, a config is one JSON value", sc.word())
	}
	return nil
}

func (sc *scanner) fail(format string, args ...any) *syntaxError {
	return &syntaxError{sc.i, fmt.Sprintf(format, args...)}
}

// encoding checks for UTF-8.
func (sc *scanner) encoding() *syntaxError {
	switch {
	case strings.HasPrefix(sc.s, "\xff\xfe"), strings.HasPrefix(sc.s, "\xfe\xff"):
		return sc.fail("is UTF-16, save it as UTF-8")
	case utf8.ValidString(sc.s):
		return nil
	}
	for ; ; sc.i++ {
		r, size := utf8.DecodeRuneInString(sc.s[sc.i:])
		if r == utf8.RuneError && size == 1 {
			return sc.fail("byte 0x%02x is not UTF-8", sc.s[sc.i])
		}
		sc.i += size - 1
	}
}

func (sc *scanner) space() {
	for sc.i < len(sc.s) && strings.IndexByte(" \t\r\n", sc.s[sc.i]) >= 0 {
		sc.i++
	}
}

// peek is the next byte, 0 at the end. JSON has no byte 0, so there is no ambiguity.
func (sc *scanner) peek() byte {
	if sc.i < len(sc.s) {
		return sc.s[sc.i]
	}
	return 0
}

// take skips c if it is the next byte.
func (sc *scanner) take(c byte) bool {
	if sc.peek() != c {
		return false
	}
	sc.i++
	return true
}

// word quotes the next word for a message.
func (sc *scanner) word() string {
	rest := sc.s[sc.i:]
	if rest == "" {
		return "the end of the text"
	}
	end := strings.IndexAny(rest, " \t\r\n,]}\"'[{")
	switch {
	case end < 0:
		end = len(rest)
	case end == 0:
		end = 1
	}
	return quote(rest[:end])
}

func (sc *scanner) value() *syntaxError {
	switch c := sc.peek(); {
	case c == '{':
		return sc.nested('}', sc.member)
	case c == '[':
		return sc.nested(']', sc.value)
	case c == '"':
		return sc.text()
	case c == '-' || isDigit(c):
		return sc.number()
	}
	for _, w := range literals {
		if rest := sc.s[sc.i:]; strings.HasPrefix(rest, w) && (len(rest) == len(w) || !isLetter(rest[len(w)])) {
			sc.i += len(w)
			return nil
		}
	}
	return sc.noValue()
}

var literals = []string{"true", "false", "null"}

// noValue explains text that is not a value, with hints for common habits.
func (sc *scanner) noValue() *syntaxError {
	word := sc.word()
	bare := strings.Trim(word, `"`)
	switch c := sc.peek(); {
	case c == '\'':
		return sc.fail("strings are written in double quotes")
	case c == '/' || c == '#':
		return sc.fail("JSON has no comments")
	case strings.Contains(bare, "+:"):
		return sc.fail("%s needs quotes and brackets: %s", word, `["BiasGelu+:1:-1"]`)
	}
	if near, ok := Nearest(bare, literals); ok {
		return sc.fail("%s is not a JSON value, did you mean %s?", word, near)
	}
	return sc.fail("%s where a value should be", word)
}

// nested scans an array or object up to its closing byte.
func (sc *scanner) nested(end byte, item func() *syntaxError) *syntaxError {
	if sc.depth++; sc.depth > maxDepth {
		return sc.fail("nested more than %d levels deep", maxDepth)
	}
	open := sc.i
	sc.i++
	sc.space()
	if sc.take(end) {
		sc.depth--
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		sc.space()
		if sc.take(end) {
			sc.depth--
			return nil
		}
		comma := sc.i
		if !sc.take(',') {
			if sc.i == len(sc.s) {
				return &syntaxError{open, fmt.Sprintf("%q is never closed", sc.s[open])}
			}
			return sc.fail("%s where a comma or %q should be", sc.word(), end)
		}
		sc.space()
		if sc.peek() == end {
			return &syntaxError{comma, fmt.Sprintf("comma before %q, remove it", end)}
		}
	}
}

// member scans one field of an object.
func (sc *scanner) member() *syntaxError {
	if sc.peek() != '"' {
		return sc.fail("%s where a field name in double quotes should be", sc.word())
	}
	if err := sc.text(); err != nil {
		return err
	}
	sc.space()
	if !sc.take(':') {
		return sc.fail("%s where a colon should be", sc.word())
	}
	sc.space()
	return sc.value()
}

// text scans a string.
func (sc *scanner) text() *syntaxError {
	open := sc.i
	for sc.i++; sc.i < len(sc.s); sc.i++ {
		switch c := sc.s[sc.i]; {
		case c == '"':
			sc.i++
			return nil
		case c < ' ':
			if c == '\n' {
				return &syntaxError{open, "string is not closed on its line"}
			}
			return sc.fail("control character 0x%02x in a string, write it as \\u%04x", c, c)
		case c == '\\':
			if err := sc.escape(); err != nil {
				return err
			}
		}
	}
	return &syntaxError{open, "string is never closed"}
}

// escape scans an escape sequence, except for its last byte.
func (sc *scanner) escape() *syntaxError {
	rest := sc.s[sc.i+1:]
	switch {
	case rest == "":
		return nil // text reports the unclosed string
	case strings.IndexByte(`"\/bfnrt`, rest[0]) >= 0:
		sc.i++
		return nil
	case rest[0] == 'u' && len(rest) >= 5 && isHex(rest[1:5]):
		sc.i += 5
		return nil
	}
	return sc.fail(`a backslash in a string is followed by one of "\/bfnrt or by u and four hex digits`)
}

// number scans a JSON number.
func (sc *scanner) number() *syntaxError {
	start := sc.i
	sc.take('-')
	if !isDigit(sc.peek()) {
		return sc.fail("%s where a digit should be", sc.word())
	}
	if sc.peek() == '0' && sc.i+1 < len(sc.s) && isDigit(sc.s[sc.i+1]) {
		sc.i = start
		return sc.fail("%s begins with a zero", sc.word())
	}
	return sc.digits()
}

// digits scans an unsigned decimal number: digits, fraction, exponent.
func (sc *scanner) digits() *syntaxError {
	for isDigit(sc.peek()) {
		sc.i++
	}
	if sc.take('.') {
		if !isDigit(sc.peek()) {
			return sc.fail("%s where a digit should be", sc.word())
		}
		for isDigit(sc.peek()) {
			sc.i++
		}
	}
	// An e without digits behind it is not an exponent, but begins what follows.
	if c := sc.peek(); c == 'e' || c == 'E' {
		j := sc.i + 1
		if j < len(sc.s) && (sc.s[j] == '+' || sc.s[j] == '-') {
			j++
		}
		if j < len(sc.s) && isDigit(sc.s[j]) {
			for sc.i = j; isDigit(sc.peek()); {
				sc.i++
			}
		}
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
