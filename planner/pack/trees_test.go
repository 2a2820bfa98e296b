package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Peaks say what a look at every section would.
func TestPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 40).Draw(t, "values")
		n := int32(len(values))
		var p peaks
		p.build(values)
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			l := rapid.Int32Range(0, n-1).Draw(t, "l")
			r := rapid.Int32Range(l+1, n).Draw(t, "r")
			x, at := p.most(l, r)
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
