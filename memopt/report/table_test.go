package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"memopt/memopt/report"
	"pgregory.net/rapid"
)

// sheet is a writer with a width.
type sheet struct {
	strings.Builder
	width int
}

func (s *sheet) Width() int { return s.width }

// TestTable: in narrow lines columns are left out by rank, names lose their middle and texts are
// wrapped.
func TestTable(t *testing.T) {
	rows := [][]string{
		{"name", "bytes", "again", "what it does"},
		{"transformer.h.0.mlp.c_fc", "1,024", "3 of 6", "y = x·W + b, where W is [64, 256]"},
		{"transformer.h.0.mlp.act", "64", "none", "y = gelu(x)"},
	}
	for width, want := range map[int]string{
		0: `
name                      bytes  again   what it does
transformer.h.0.mlp.c_fc  1,024  3 of 6  y = x·W + b, where W is [64, 256]
transformer.h.0.mlp.act      64  none    y = gelu(x)
`,
		68: `
name                      bytes  again   what it does
transformer.h.0.mlp.c_fc  1,024  3 of 6  y = x·W + b, where W is
                                         [64, 256]
transformer.h.0.mlp.act      64  none    y = gelu(x)
`,
		60: `
name                      bytes  what it does
transformer.h.0.mlp.c_fc  1,024  y = x·W + b, where W is
                                 [64, 256]
transformer.h.0.mlp.act      64  y = gelu(x)
(no room for again; --columns 0 shows all)
`,
		40: `
name                 what it does
transf…h.0.mlp.c_fc  y = x·W + b, where
                     W is [64, 256]
transf….h.0.mlp.act  y = gelu(x)
(no room for bytes, again; --columns 0
  shows all)
`,
	} {
		w := &sheet{width: width}
		report.Table(w, "=nr2l1t", rows)
		if got := "\n" + w.String(); got != want {
			t.Errorf("in %d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// TestTablesFit: lines fit the width with any cells, if rigid columns may be left out and words are
// short.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &sheet{width: rapid.IntRange(40, 120).Draw(t, "width")}
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}( [a-z]{1,8}){0,20}`), 5, 5)
		rows := rapid.SliceOfN(words, 1, 5).Draw(t, "rows")
		rows = append([][]string{{"name", "l", "r", "second", "text"}}, rows...)
		for i := range rows {
			for k := range rows[i][:4] {
				rows[i][k] = strings.ReplaceAll(rows[i][k], " ", ".")
			}
		}
		report.Table(w, "=nl1r2n3t", rows)
		for line := range strings.Lines(w.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > w.width {
				t.Fatalf("%d columns of %d: %s", n, w.width, line)
			}
		}
	})
}

// TestWrap: a text has the same words at any width, and lines are indented alike.
func TestWrap(t *testing.T) {
	const text = "  label  some words, and\n  more of them\n\n/a/path/that/is/longer/than/any/line is there\n"
	const want = "  label  some words,\n    and\n  more of them\n\n/a/path/that/is/longer/than/any/line\n  is there\n"
	if got := report.Wrap(text, 22, 2); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := report.Wrap(text, 0, 2); got != text {
		t.Errorf("without a limit it is %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`( {0,4}[a-zé·]{1,12}( [a-zé·]{1,12}){0,12}\n){0,4}`).Draw(t, "text")
		width, hang := rapid.IntRange(20, 60).Draw(t, "width"), rapid.IntRange(0, 4).Draw(t, "hang")
		out := report.Wrap(s, width, hang)
		if fmt.Sprint(strings.Fields(out)) != fmt.Sprint(strings.Fields(s)) {
			t.Fatalf("words differ:\n%s\n%s", s, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d columns of %d: %q", n, width, line)
			}
		}
	})
}
