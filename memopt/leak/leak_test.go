package leak

import (
	"math/rand/v2"
	"testing"
)

func TestFind(t *testing.T) {
	const mib = 1 << 20
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name  string
		bytes bool
		at    func(i int) int64
		grows bool
		slope float64
	}{
		{"flat", true, func(int) int64 { return 5 * mib }, false, 0},
		{"fills a pool first", true, func(i int) int64 { return int64(min(i, 4)) * mib }, false, 0},
		{"leaks 128 KiB a cycle", true, func(i int) int64 { return 5*mib + int64(i)*131072 }, true, 131072},
		{"varies without growing", true, func(int) int64 { return 5*mib + r.Int64N(mib) }, false, -1},
		{"leaks under noise", true, func(i int) int64 { return int64(i)*mib/4 + r.Int64N(mib/4) }, true, -1},
		{"now and then more", true, func(i int) int64 { return 5*mib + int64(i%5/4)*8*mib }, false, 0},
		{"fills a pool late", true, func(i int) int64 { return int64(4+i/12*2) * mib }, false, -1},
		{"shrinks", true, func(i int) int64 { return 50*mib - int64(i)*mib }, false, -mib},
		{"a descriptor a cycle", false, func(i int) int64 { return 7 + int64(i) }, true, 1},
		{"one goroutine that stays", false, func(i int) int64 { return 3 + int64(min(i, 1)) }, false, 0},
	} {
		s := Series{Name: c.name, Bytes: c.bytes}
		for i := range 20 {
			s.Sizes = append(s.Sizes, c.at(i))
		}
		g := Find([]Series{s})[0]
		if g.Grows != c.grows || c.slope != -1 && g.PerCycle != c.slope {
			t.Errorf("%s: grows %v by %v a cycle", c.name, g.Grows, g.PerCycle)
		}
	}
	for n := range 4 {
		if g := Find([]Series{{Sizes: make([]int64, n)}})[0]; g.Grows || g.PerCycle != 0 {
			t.Errorf("%d cycles of nothing: %+v", n, g)
		}
	}
}
