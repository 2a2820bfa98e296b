package pack

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Lives are sorted as a stable sort that compares does it.
func TestSorter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var s sorter
	for _, most := range []uint64{1, 3, 1 << 9, 1 << 24, 1 << 41, 1<<64 - 1} {
		for _, n := range []int{0, 1, 2, 50, 2000} {
			keys, lives := make([]uint64, n), make([]int32, n)
			for i := range lives {
				keys[i], lives[i] = r.Uint64N(most), int32(i)
			}
			want := slices.Clone(lives)
			slices.SortStableFunc(want, func(i, j int32) int { return cmp.Compare(keys[i], keys[j]) })
			if s.sort(lives, func(i int32) uint64 { return keys[i] }); !slices.Equal(lives, want) {
				t.Errorf("%d lives of keys below %d are not in order", n, most)
			}
		}
	}
}
