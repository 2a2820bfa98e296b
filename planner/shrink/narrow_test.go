package shrink_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/planner/shrink"
)

// places is a step whose backward pass reads the positions of the greatest elements.
const places = `
x f32[batch, 4, %[1]d] = input
w f32[%[1]d] = param
k i64[1] = const {3}
h = Mul(x, w)
v, at = TopK(h, k)
e = Exp(v)
l = ReduceMean(e) keepdims=0
output l
`

func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		width int
		as    graph.DType
	}{{256, graph.Uint8}, {257, graph.Uint16}, {65537, graph.Int32}} {
		t.Run(c.as.String(), func(t *testing.T) {
			g := step(t, filled(t, fmt.Sprintf(places, c.width)))
			found, err := shrink.Candidates(context.Background(), g)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].ID != "TopK+" || found[0].As != c.as {
				t.Fatalf("found %+v, want TopK+ as %s", found, c.as)
			}
			small, err := shrink.Apply(context.Background(), g, found)
			if err != nil {
				t.Fatal(err)
			}
			before, want := run(t, g)
			after, got := run(t, small)
			if was, is := before.Baseline.Stashed, after.Baseline.Stashed; was-is != 3*4*3*(8-c.as.Size()) {
				t.Errorf("kept %d bytes before and %d after", was, is)
			}
			for name := range want {
				if !bytes.Equal(want[name], got[name]) {
					t.Errorf("%q has other bits", name)
				}
			}
		})
	}
}

// TestProofs: ranges of integers are known only for a reason, and stored values come back
// unchanged.
func TestProofs(t *testing.T) {
	for _, c := range []struct{ name, text, id, how string }{
		{"rows that are picked", `
ids i64[batch, 8] = input
one i64[] = const {1}
table f32[200, 4] = param
from = Sub(ids, one)
x = Gather(table, from)
`, "Sub+", `i16: all of them are from -200 to 199 (node "x" picks from 200 rows by them)`},
		{"labels that are ids too", `
ids i64[batch, 9] = input
table f32[100, 4] = param
from i64[1] = const {1}
to i64[1] = const {9}
axis i64[1] = const {1}
list i64[1] = const {-1}
x = Gather(table, ids)
next = Slice(ids, from, to, axis)
other f32[300, 4] = param
y = Gather(other, next)
s = ReduceMean(x) keepdims=0
z = Add(y, s)
`, "Slice+", `i8: all of them are from -100 to 99 (node "x" picks from 100 rows by them)`},
		{"a shape that is read in the forward pass alone", `
w f32[8] = param
y f32[4, 8] = input
z f32[2, 16] = input
v f32[2, 16] = param
h = Mul(y, w)
to = Shape(z)
r = Reshape(h, to)
x = Mul(r, v)
`, "", ""},
		{"a remainder", `
ids i64[batch, 8] = input
size i64[] = const {50}
table f32[200, 4] = param
at = Mod(ids, size)
x = Gather(table, at)
`, "Mod+", "u8: all of them are from 0 to 49 (remainders by at most 50)"},
		{"a sum", `
ids u8[batch, 8] = input
by i64[] = const {3}
table f32[2000, 4] = param
long = Cast(ids) to=7
at = Add(long, by)
x = Gather(table, at)
`, "Add+", "u16: all of them are from 3 to 258 (made of u8)"},
		{"a mask of floats", `
mask bool[batch, 64] = input
w f32[64] = param
one f32[] = const {1}
m = Cast(mask) to=1
not = Sub(one, m)
x = Mul(w, not)
`, "Sub+", "u8: all of them are from 0 to 1 (bools as numbers)"},
		{"a mask that was made wider, which is a compromise", `
mask bool[batch, 64] = input
w f32[64] = param
m = Cast(mask) to=1
x = Mul(w, m)
`, "", ""},
		{"a mask that has negative zeros", `
mask bool[batch, 64] = input
w f32[64] = param
far f32[] = const {-10000}
m = Cast(mask) to=1
off = Mul(m, far)
x = Mul(w, off)
`, "", ""},
		{"numbers of any size", `
ids i64[batch, 64] = input
w f32[64] = param
by i64[] = const {3}
at = Add(ids, by)
m = Cast(at) to=1
x = Mul(w, m)
`, "", ""},
		{"more than a float holds", `
ids i32[batch, 64] = input
w f32[64] = param
m = Cast(ids) to=1
x = Mul(w, m)
`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := "x"
			if strings.Contains(c.text, "z = ") {
				last = "z"
			}
			g := step(t, filled(t, c.text+"e = Exp("+last+")\nl = ReduceMean(e) keepdims=0\noutput l\n"))
			found, err := shrink.Candidates(context.Background(), g)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(found, func(f shrink.Candidate) bool { return f.ID == c.id })
			if c.id == "" {
				if len(found) > 0 {
					t.Errorf("found %s: %s", found[0].ID, found[0].How)
				}
				return
			}
			if at < 0 || found[at].How != c.how {
				t.Fatalf("found %+v, want %s: %s", found, c.id, c.how)
			}
			small, err := shrink.Apply(context.Background(), g, found)
			if err != nil {
				t.Fatal(err)
			}
			_, want := run(t, g)
			_, got := run(t, small)
			for name := range want {
				if !bytes.Equal(want[name], got[name]) {
					t.Errorf("%q has other bits", name)
				}
			}
		})
	}
}
