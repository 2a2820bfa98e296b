package configs

import (
	"fmt"
	"strings"

	"memopt/internal/visible"
)

// ShellWord quotes a text as one word of a shell's command line, as names of dims and files may
// have any characters.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-+=./:,%@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if visible.Line(s) != s {
		// Control characters need $'…', which bash and zsh have, with octal escapes.
		var sb strings.Builder
		for _, b := range []byte(s) {
			if b < ' ' || b > '~' || b == '\'' || b == '\\' {
				fmt.Fprintf(&sb, `\%03o`, b)
			} else {
				sb.WriteByte(b)
			}
		}
		return "$'" + sb.String() + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
