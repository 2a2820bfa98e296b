package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// many is at most a mebibyte of numbered pieces of text.
func many(open, piece, sep, end string) string {
	var b strings.Builder
	b.WriteString(open)
	for i := 0; b.Len() < maxSize-200; i++ {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprintf(&b, piece, i)
	}
	b.WriteString(end)
	return b.String()
}

var hostile = []struct{ name, src, want string }{
	{"brackets", strings.Repeat("[", 100_000), ":1:9: nested more than 8 levels deep"},
	{"braces", strings.Repeat(`{"config":`, 100_000), ":1:81: nested more than 8 levels deep"},
	{"brackets deep inside", `{"dims": {"a": ` + strings.Repeat("[", 100_000) + `}}`, "nested more than 8"},
	{"a byte order mark alone", "\ufeff", ":1:1: is empty"},
	{"two byte order marks", "\ufeff\ufeff[]", ":1:1: "},
	{"a byte order mark inside", "[\ufeff]", ":1:2: "},
	{"UTF-16", "\xff\xfe[\x00]\x00", ":1:1: is UTF-16"},
	{"not UTF-8", "{\n\"loss\": \"größe\xff\"}", ":2:15: byte 0xff is not UTF-8"},
	{"NUL", "[]\x00", ":1:3: \"\\x00\" after the end"},
	{"NUL alone", "\x00", ":1:1: \"\\x00\" where a value should be"},
	{"NUL in a string", "[\"A\x00\"]", ":1:4: control character 0x00"},
	{"nothing", "", ":1:1: is empty, need an array"},
	{"blank", " \n\t\n ", ":3:2: is empty, need an array"},
	{"too large", strings.Repeat(" ", maxSize) + "[]", ": more than the 1048576 bytes"},
	{"a long name", `{"` + strings.Repeat("x", 500_000) + `": 1}`, ":1:2: unknown field"},
	{"a long string", `["` + strings.Repeat("x", 500_000) + `"]`, "has 1 of 3 parts"},
	{"a long number", `{"level": ` + strings.Repeat("9", 500_000) + `}`, "is not an integer"},
	{"a long size", `{"budget": ` + strings.Repeat("9", 500_000) + `}`, "more digits than a size"},
	{"a long rate", `{"lr": 0.` + strings.Repeat("0", 500_000) + `1}`, "is not a number above 0"},
	{"a long escape", `["` + strings.Repeat(`\u0041`, 100_000) + `"]`, "has 1 of 3 parts"},
	{"a surrogate by half", `{"device": "\ud800"}`, ":1:12: device: "},
	{"many newlines", strings.Repeat("\n", 900_000) + "]", ":900001:1: "},
	{"many requests", many("[", `"A%d+:1:-1"`, ",", "]"), "more than 4096 requests"},
	{"many in one string", many(`["`, "A%d+:1:-1", ",", `"]`), "more than 4096 requests"},
	{"many layers", many(`["A+:1:{`, "%d", ",", `}"]`), "more than 4096 ranges"},
	{"many dims", many(`{"dims": {`, `"d%d": 1`, ",", "}}"), "more than 4096 dims"},
	{"many dims in a string", many(`{"dims": "`, `d%d=1`, ",", `"}`), "more than 4096 dims"},
	{"many parameters", many(`{"trainable": [`, `"p%d"`, ",", "]}"), "more than 4096 entries"},
	{"many fields", many("{", `"f%d": 1`, ",", "}"), "unknown field \"f0\""},
	{"many colons", `["` + strings.Repeat(":", 500_000) + `"]`, "has 500001 parts instead of 3"},
	{"many commas", `["` + strings.Repeat(",", 500_000) + `"]`, "no request on one side"},
	{"many braces", `["A+:1:` + strings.Repeat("{", 500_000) + `"]`, "brace within braces"},
	{"a wide layer range", `["A+:1:{0-2147483647}"]`, ""},
}

// Hostile text gives a short error on one line, quickly, with memory that is a small multiple of
// its size.
func TestHostileJSON(t *testing.T) {
	for _, c := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseJSON([]byte(c.src), "plan.json")
		runtime.ReadMemStats(&after)
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(c.src)+2<<20); took > most {
			t.Errorf("%s: took %d bytes for a text of %d", c.name, took, len(c.src))
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "":
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want it to say %s", c.name, err, c.want)
		default:
			checkError(t, err)
		}
	}
}

// checkError checks the form of an error.
func checkError(t *testing.T, err error) {
	t.Helper()
	msg := err.Error()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("an error without a place: %v", err)
	}
	if strings.ContainsAny(msg, "\n\r\x00") || len(msg) > 1200 || !utf8.ValidString(msg) {
		t.Errorf("not a short line: %q", msg)
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, c := range hostile {
		if len(c.src) < 1000 {
			f.Add([]byte(c.src))
		}
	}
	for _, s := range []string{
		`["BiasGelu+:1:-1,B+:2:{0-3,7}"]`,
		`{"budget": "6GiB", "dims": {"batch": 8}, "level": 1, "lr": 1e-3, "boundary": true, "trainable": ["a"]}`,
		`{"preset": "full", "max_overhead": 0.1, "seed": 7, "log": "devinfo", "dims": "a=1"}`,
		`{"loss": "\u00e9\ud83d\ude00\n"}`, `[-0.5e+10, tru]`, `{"a" 1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		// Apart from encoding and depth, the scanner accepts exactly JSON.
		if e := scan(string(src)); e == nil {
			if !json.Valid(src) || !gjson.ValidBytes(src) {
				t.Fatalf("accepted %q", src)
			}
		} else if e.off < 0 || e.off > len(src) {
			t.Fatalf("error at %d of %d bytes", e.off, len(src))
		} else if json.Valid(src) && utf8.Valid(src) && !strings.Contains(e.msg, "nested more than") {
			t.Fatalf("rejected %q: %s", src, e.msg)
		}
		c, err := ParseJSON(src, "plan.json")
		if err != nil {
			checkError(t, err)
			return
		}
		for _, f := range rows {
			from, ok := c.Source(f.Name)
			if !ok {
				continue
			}
			if from.Pos.Line < 1 || from.Pos.Col < 1 {
				t.Errorf("%s from %v", f.Name, from)
			}
		}
		if merged := Merge(c); len(merged.NonDefaults()) < len(c.NonDefaults()) {
			t.Errorf("lost settings of %q", src)
		}
	})
}

func FuzzParseBudget(f *testing.F) {
	for _, s := range []string{"6GiB", "60%", "0.6", "1.5 gb", "6442450944", "1e3", "0", "-1", "9223372036854775807", "1e30PB", "33.333333333333336%"} {
		f.Add(s, int64(1<<30))
	}
	f.Fuzz(func(t *testing.T, s string, base int64) {
		b, err := ParseBudget(s)
		if err != nil {
			checkError(t, err)
			return
		}
		if (b.Bytes > 0) == (b.Percent > 0) {
			t.Fatalf("%q is %+v", s, b)
		}
		again, err := ParseBudget(b.String())
		if err != nil || again != b {
			t.Errorf("%q prints %s, which is %+v, not %+v (%v)", s, b, again, b, err)
		}
		if base >= 0 && b.Of(base) < 0 {
			t.Errorf("%s of %d is %d", b, base, b.Of(base))
		}
	})
}

func FuzzParseRequests(f *testing.F) {
	for _, s := range []string{"BiasGelu+:1:-1", "A+:1:-1,B+:2:{0-3,7}", "A+:1:{", " A+:1:-1", "A+:1abc:-1", ",", "A+::1:-1", "A\xff", "a:0:0,a:0:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rs, err := ParseRequests(s, "var")
		if err != nil {
			checkError(t, err)
			return
		}
		if got := printRequests(rs); got != s && !strings.Contains(s, "-") {
			t.Errorf("%q prints %q", s, got)
		}
		again, err := ParseRequests(printRequests(rs), "var")
		if err != nil || printRequests(again) != printRequests(rs) {
			t.Errorf("%q prints %q, which reads as %v, %v", s, printRequests(rs), again, err)
		}
	})
}

func FuzzParseDims(f *testing.F) {
	for _, s := range []string{"batch=8,seq=1024", "", ",", "a=0", "a=1,a=2", "a b =9", "a=9223372036854775808", "\xff=1", "a=b=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dims, err := ParseDims(s)
		if err != nil {
			checkError(t, err)
			return
		}
		for name, size := range dims {
			if name == "" || size < 1 {
				t.Errorf("%q: %q=%d", s, name, size)
			}
		}
		again, err := ParseDims(FormatDims(dims))
		if err != nil || FormatDims(again) != FormatDims(dims) {
			t.Errorf("%q prints %q, which reads as %v, %v", s, FormatDims(dims), again, err)
		}
	})
}
