package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Peaks say what a look at every section would.
func TestPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 600).Draw(t, "values")
		n := int32(len(values))
		var p maxTree
		p.build(values)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			l := rapid.Int32Range(0, n-1).Draw(t, "l")
			r := rapid.Int32Range(l+1, n).Draw(t, "r")
			x, among := p.maxOf(l, r)
			at := p.find(among)
			if want := slices.Max(values[l:r]); x != want || at != l+int32(slices.Index(values[l:r], want)) {
				t.Fatalf("most of [%d, %d) of %v is %d at %d", l, r, values, x, at)
			}
			add := rapid.Int64Range(-3, 3).Draw(t, "add")
			p.add(l, r, add)
			for i := range values[l:r] {
				values[int(l)+i] += add
			}
			if got := p.values(n); !slices.Equal(got, values) {
				t.Fatalf("values %v, want %v", got, values)
			}
		}
	})
}

// So do firsts.
func TestFirsts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int32Range(0, 9), 1, 600).Draw(t, "values")
		n := int32(len(values))
		var f minTree
		f.build(values)
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			from := rapid.Int32Range(0, n).Draw(t, "from")
			to := rapid.Int32Range(from, n).Draw(t, "to")
			x := rapid.Int32Range(0, 4).Draw(t, "x")
			want := int32(slices.IndexFunc(values[from:to], func(y int32) bool { return y <= x }))
			if want >= 0 {
				want += from
			}
			if got := f.firstAtMost(from, to, x); got != want {
				t.Fatalf("the first of at most %d in [%d, %d) of %v is %d, not %d", x, from, to, values, got, want)
			}
			if want >= 0 {
				values[want] = gone
				f.set(want, gone)
			}
		}
	})
}

// values are the numbers of the first n sections.
func (p *maxTree) values(n int32) (values []int64) {
	for t := range n {
		x, _ := p.maxOf(t, t+1)
		values = append(values, x)
	}
	return values
}
