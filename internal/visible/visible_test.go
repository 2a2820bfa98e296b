package visible_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"memopt/internal/visible"
)

// hostile has a character of each kind that must not be shown as it is.
var hostile = map[string]string{
	"\x1b[31m":    `\x1b[31m`,
	"\x00\r\x08":  `\x00\x0d\x08`,
	"\x7f":        `\u007f`,
	"\u0085":      `\u0085`,
	"\u009b2J":    `\u009b2J`,
	"\u061c":      `\u061c`,
	"\u200b":      `\u200b`,
	"\u200e":      `\u200e`,
	"\u2028":      `\u2028`,
	"\u202e":      `\u202e`,
	"\u2066":      `\u2066`,
	"\ufeff":      `\ufeff`,
	"\u00ad":      `\u00ad`,
	"\u00a0":      `\u00a0`,
	"\u3164":      `\u3164`, // a letter of no looks
	"\ufe0f":      `\ufe0f`,
	"\U000e0041":  `\udb40\udc41`,
	"\xff":        `\xff`,
	"\xe2\x80":    `\xe2\x80`,
	"\x9b":        `\x9b`, // C1 to a terminal of Latin-1
	"\ufffd":      "\ufffd",
	"größe 𝛼 – 层": "größe 𝛼 – 层",
	"a\\b\"'":     "a\\b\"'",
}

func TestSpelling(t *testing.T) {
	for in, want := range hostile {
		if got := visible.Line(in); got != want {
			t.Errorf("Line(%q) = %s, want %s", in, got, want)
		}
		if got := visible.Text(in + "\n\t"); got != want+"\n\t" {
			t.Errorf("Text(%q) = %s, want %s and its newline", in, got, want)
		}
		for name, chunks := range map[string]func(io.Reader) io.Reader{"as a whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			var out bytes.Buffer
			w := visible.NewWriter(&out)
			if _, err := io.Copy(w, chunks(strings.NewReader(in))); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil || out.String() != want {
				t.Errorf("%q written %s: %s (%v), want %s", in, name, &out, err, want)
			}
		}
	}
	if got := visible.Line("a\n\tb"); got != `a\n\tb` {
		t.Errorf("Line: %s", got)
	}
}

func TestFprintf(t *testing.T) {
	name := "x\n\u202egone\x1b[2J"
	const is = `x\n\u202egone\x1b[2J`
	got := visible.Sprintf("%s|%-*s|%q|%v|%v|%5d|%.1f|%v\n%s", name, 8, "a", name, []string{name}, errors.New(name), 3, 2.55, name, visible.Lines("a\nb\x1b"))
	want := is + `|a       |"x\n\u202egone\x1b[2J"|[` + is + `]|` + is + `|    3|2.5|` + is + "\na\nb\\x1b"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// broken takes so many writes.
type broken int

func (b *broken) Write(p []byte) (int, error) {
	if *b--; *b < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestError(t *testing.T) {
	takes := broken(1)
	w := visible.NewWriter(&takes)
	io.WriteString(w, "a")
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	if _, err := io.WriteString(w, "\u202e"); err != io.ErrClosedPipe || w.Err() != err {
		t.Errorf("errors %v and %v", err, w.Err())
	}
}

// FuzzVisible: no text shows anything but printable characters, text that was
// shown once stays as it is, and JSON stays the same JSON.
func FuzzVisible(f *testing.F) {
	for in := range hostile {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		line, text := visible.Line(in), visible.Text(in)
		for _, r := range line {
			if r < ' ' || 0x7e < r && r < 0xa0 || '\u2028' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' || r == '\u061c' || r == '\ufeff' || r >= 0xe0000 && r < 0xe1000 {
				t.Fatalf("Line(%q) has %U", in, r)
			}
		}
		if !utf8.ValidString(text) || visible.Text(text) != text || visible.Line(line) != line {
			t.Fatalf("%q: not stable: %q and %q", in, line, text)
		}
		var coded bytes.Buffer
		e := json.NewEncoder(&coded)
		e.SetEscapeHTML(false)
		if err := e.Encode(in); err != nil {
			t.Fatal(err)
		}
		var want, got string
		if err := json.Unmarshal(coded.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(visible.Bytes(coded.Bytes()), &got); err != nil || got != want {
			t.Fatalf("%q: JSON %q (%v), want %q", in, got, err, want)
		}
	})
}
