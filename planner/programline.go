package planner

import (
	"strconv"
	"strings"
)

// Line is a node as a plan file's program spells it.
type Line struct {
	Name, Op string
	// Module is the part of the model that the node belongs to, in dots: what a recorder wrote, the name up to its last
	// slash, or a name that has dots itself. "" is unknown.
	Module string
}

// ParseLine reads a line of a program as far as reports need it: outputs with types, the operator, and the node's name
// behind @ if it is not the first output's.
func ParseLine(line string) (l Line) {
	first, rest := cutName(line)
	l.Name = first
	// Names may hold anything in quotes, so " = " counts only outside them.
	rest = afterEquals(rest)
	l.Op, rest, _ = strings.Cut(rest, "(")
	for text := rest; text != ""; {
		if text[0] == '"' {
			_, text = cutName(text)
			continue
		}
		if name, ok := strings.CutPrefix(text, " @"); ok {
			l.Name, _ = cutName(name)
			break
		}
		if module, ok := strings.CutPrefix(text, ` module="`); ok {
			l.Module, text = cutName(`"` + module)
			continue
		}
		text = text[1:]
	}
	switch i := strings.LastIndexByte(l.Name, '/'); {
	case l.Module != "":
	case i > 0:
		l.Module = strings.ReplaceAll(strings.TrimPrefix(l.Name[:i], "/"), "/", ".")
	case strings.ContainsRune(l.Name, '.'):
		l.Module = l.Name
	}
	return l
}

// cutName takes a name, quoted or not, off the front.
func cutName(s string) (name, rest string) {
	if quoted, err := strconv.QuotedPrefix(s); err == nil && s[0] == '"' {
		name, _ = strconv.Unquote(quoted)
		return name, s[len(quoted):]
	}
	end := strings.IndexAny(s, " ,")
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

func afterEquals(s string) string {
	for s != "" {
		if s[0] == '"' {
			if _, rest := cutName(s); len(rest) < len(s) {
				s = rest
				continue
			}
		}
		if rest, ok := strings.CutPrefix(s, " = "); ok {
			return rest
		}
		s = s[1:]
	}
	return ""
}
