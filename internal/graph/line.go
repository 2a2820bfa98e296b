package graph

import (
	"regexp"
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

// A line is outputs with types, the operator, its operands and attributes, and the node's module and its name behind @
// if that is not the first output's. Names may hold anything in quotes, so all else counts only outside them.
const quotedName = `"(?:[^"\\]|\\.)*"`

var (
	lineForm = regexp.MustCompile(`(?s)^(` + quotedName + `|[^ ,]*)(?:` + quotedName + `|[^"])*? = ([^(]*)(.*)`)
	lineEnds = regexp.MustCompile(quotedName + `| (@|module=)(` + quotedName + `|[^ ,]+)`)
)

// ParseLine reads a line of a program as far as reports need it.
func ParseLine(line string) (l Line) {
	bare := func(name string) string {
		if text, err := strconv.Unquote(name); err == nil {
			return text
		}
		return name
	}
	form := lineForm.FindStringSubmatch(line)
	if form == nil {
		return Line{Name: line}
	}
	l.Name, l.Op = bare(form[1]), form[2]
	for _, end := range lineEnds.FindAllStringSubmatch(form[3], -1) {
		switch end[1] {
		case "@":
			l.Name = bare(end[2])
		case "module=":
			l.Module = bare(end[2])
		}
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
