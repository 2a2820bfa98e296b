package graph

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestHostile: texts made to take long or much memory take neither. Without the
// bounds on formulas most of these would not end.
func TestHostile(t *testing.T) {
	names := func(n int, sep string) string {
		var sb strings.Builder
		for i := range n {
			fmt.Fprintf(&sb, "%sd%d", sep, i)
		}
		return sb.String()[len(sep):]
	}
	const size = 1 << 18
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, c := range []struct{ name, dim, want string }{
		{"a long sum", names(size/8, "+"), "formula too large"},
		{"a long sum of one name", "a" + fill("+a"), ""},
		{"a long product", names(size/8, "*"), "formula too large"},
		{"a long max", "max(" + names(size/8, ",") + ")", "max of more than 16"},
		{"max of max", "max(" + strings.Repeat("max("+names(16, ",")+"),", 15) + "d0)", ""},
		{"deep parentheses", fill("("), "nested too deeply"},
		{"deep calls", fill("ceil("), "nested too deeply"},
		{"deep max", fill("max("), "nested too deeply"},
		{"many signs", fill("-") + "1", ""},
		{"a tower", "a" + fill("**9"), "expected"},
		{"powers of sums", strings.Repeat("(a+b+c)**4/7+", 2000) + "1", ""},
		{"products of sums", "(" + names(16, "+") + ")" + fill("*(a+1)"), "formula too large"},
		{"a long name", `"` + fill("n") + `"`, ""},
		{"products of a long name", `("` + strings.Repeat("n", 5000) + `" + 1)*("` + strings.Repeat("m", 5000) + `" + 1)`, "formula too large"},
		{"divisions of divisions", fill("floor(a/2)/3+") + "1", ""},
		{"a long division", "a**64/(a-1)", ""},
		{"towers of a long name", `"` + strings.Repeat("n", 8000) + `"` + fill("*a/a"), ""},
		{"digits", fill("9"), "is not a 64-bit integer"},
		{"a string that does not end", `"` + fill("n"), "does not end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ParseDim(c.dim)
			runtime.ReadMemStats(&after)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %.200v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %.200v, want %s", err, c.want)
			}
			t.Logf("%d bytes of text, %d of memory in all", len(c.dim), after.TotalAlloc-before.TotalAlloc)
		})
	}
	for name, src := range map[string]string{
		"many values":        fill("\"\\x00\" f32[] = input\n"),
		"a wide shape":       "x f32[" + fill("1,") + "1] = input",
		"a wide named shape": "x f32[" + fill("a,") + "1] = input",
		"a large tensor":     "x f32[1152921504606846975] = input\ny = Any(x) t=f32[1152921504606846975]{1}",
		"an empty giant":     "x f32[0, 1152921504606846975] = const {}",
		"many numbers":       "c i64[1] = const {" + fill("1,") + "1}",
		"a long line":        "x f32[] = input\ny = Sum(" + fill("x,") + "x)",
		"many outputs":       "x f32[] = input\n" + fill("_,") + "y = Split(x)",
		"long chains":        "x f32[n] = input\nx0 = Shape(x)\n" + fill("_ = Mul(x0, x0)\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			g, err := Parse(testLibrary, src)
			runtime.GC()
			runtime.ReadMemStats(&after)
			took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			if took > 128*int64(len(src))+1<<20 {
				t.Errorf("%d bytes of text hold %d of memory", len(src), took)
			}
			t.Logf("%d bytes of text, %d of memory; %.80v", len(src), took, err)
			runtime.KeepAlive(g)
		})
	}
}
