package onnx

import (
	"strings"

	"memopt/internal/graph"
)

// DimOf reads a dim_param. Exporters write formulas (2*seq + 1, floor(s0/2)) and names that
// are not identifiers (sequence-length, unk__12, N.1). Text of only letters, digits and
// connecting punctuation is a name; other text is a formula if it parses, else a name too.
func DimOf(param string) graph.Dim {
	if isName(param) {
		return graph.Sym(param)
	}
	if d, err := graph.ParseDim(param); err == nil {
		return d
	}
	return graph.Sym(param)
}

func isName(s string) bool {
	letter := func(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 }
	for i := range len(s) {
		if !letter(s[i]) && (i == 0 || !(s[i] >= '0' && s[i] <= '9') && !strings.ContainsRune("-.:", rune(s[i]))) {
			return false
		}
	}
	return s != ""
}

// paramOf is the dim_param for d: a name, or else the formula.
func paramOf(d graph.Dim) string {
	if names := d.Names(); len(names) == 1 && DimOf(names[0]).Equal(d) {
		return names[0]
	}
	return d.String()
}
