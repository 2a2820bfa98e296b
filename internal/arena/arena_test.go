package arena

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// counted is a limited amount of memory without bytes.
type counted struct{ left int64 }

func (c *counted) Take(n int64) ([]byte, error) {
	if n > c.left {
		return nil, errors.New("no more")
	}
	c.left -= n
	return nil, nil
}

func (c *counted) Give(_ []byte, n int64) { c.left += n }

const (
	kB  = 1000
	kiB = 1 << 10
	miB = 1 << 20
	mB  = 1000 * 1000
)

// TestGrowth: sizes of regions follow ONNX Runtime's rule.
func TestGrowth(t *testing.T) {
	a := New(Options{Strategy: NextPowerOfTwo, Memory: &counted{most}})
	for i, step := range []struct{ request, region, next, total int64 }{
		{kB, 1 * miB, 2 * miB, 1 * miB},
		{kB, 2 * miB, 4 * miB, 3 * miB},
		{3 * miB, 4 * miB, 8 * miB, 7 * miB},
		{3 * miB, 8 * miB, 16 * miB, 15 * miB},
		{600 * mB, 1024 * miB, 1024 * miB, 1039 * miB},
		{600 * mB, 1024 * miB, 1024 * miB, 2063 * miB},
		{2100 * miB, 4096 * miB, 4096 * miB, 6159 * miB},
		{100, 4096 * miB, 1024 * miB, 10255 * miB},
	} {
		// Each request of the trace found no room in the regions before it.
		for hole := a.Stats().LargestHole; hole > 0; hole = a.Stats().LargestHole {
			if _, err := a.Alloc(hole, "filling"); err != nil {
				t.Fatal(err)
			}
		}
		before := a.Stats()
		if _, err := a.Alloc(step.request, "x"); err != nil {
			t.Fatal(err)
		}
		s := a.Stats()
		if got := s.TotalAllocated - before.TotalAllocated; got != step.region || a.grow != step.next || s.TotalAllocated != step.total || s.NumArenaExtensions != int64(i+1) {
			t.Errorf("step %d: region %d, next %d, total %d, %d extensions; want %+v", i, got, a.grow, s.TotalAllocated, s.NumArenaExtensions, step)
		}
	}
}

// TestSplit: a chunk is split if at least the requested size would be left, or more than
// MaxDeadBytes.
func TestSplit(t *testing.T) {
	a := New(Options{Strategy: SameAsRequested, MaxDeadBytes: 10 * kiB, Memory: &counted{most}})
	whole, _ := a.Alloc(16*kiB, "x")
	a.Free(whole)
	most, _ := a.Alloc(9*kiB, "x") // less than twice the size, and 7 KiB is below MaxDeadBytes
	if most.Size() != 16*kiB {
		t.Errorf("granted %d", most.Size())
	}
	a.Free(most)
	half, _ := a.Alloc(8*kiB, "x")
	if half.Size() != 8*kiB || a.Stats().LargestHole != 8*kiB {
		t.Errorf("granted %d, hole %d", half.Size(), a.Stats().LargestHole)
	}
	a.Free(half)
	if got := a.Stats(); got.LargestHole != 16*kiB || got.InUse != 0 {
		t.Errorf("holes are not joined: %+v", got)
	}
}

// TestShrink: idle regions are freed, the first is kept only if regions double, and growth
// restarts.
func TestShrink(t *testing.T) {
	for _, s := range []struct {
		strategy Strategy
		stays    int64
	}{{NextPowerOfTwo, miB}, {SameAsRequested, 0}, {Planned, 0}} {
		a := New(Options{Strategy: s.strategy, Memory: &counted{most}})
		var all []*Chunk
		for range 3 {
			c, err := a.Alloc(miB, "x")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		total := a.Stats().TotalAllocated
		for i, c := range all {
			if got := a.Shrink(); i == 0 && got != 0 {
				t.Errorf("%s: %d returned that are in use", s.strategy, got)
			}
			a.Free(c)
		}
		a.Shrink()
		if got := a.Stats(); got.TotalAllocated != s.stays || got.NumArenaShrinkages != 4 || got.MaxTotalAllocated != total {
			t.Errorf("%s: %+v", s.strategy, got)
		}
		if s.strategy == NextPowerOfTwo && a.grow != 2*miB {
			t.Errorf("the next region has %d", a.grow)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLimit: requests within the limit succeed, to the byte, and others fail.
func TestLimit(t *testing.T) {
	for _, strategy := range Strategies() {
		for _, limit := range []int64{1, 255, 256, 4096, 10 * kiB, 10*kiB - 1, 3 * miB} {
			for _, n := range []int64{0, 1, 4096, 10 * kiB, 3 * miB, 3*miB + 1, math.MaxInt64, math.MaxInt64 - 100, -1, math.MinInt64} {
				t.Run(fmt.Sprint(strategy, limit, n), func(t *testing.T) {
					account := NewAccount(limit)
					a := New(Options{Strategy: Strategy(strategy), Account: account})
					c, err := a.Alloc(n, "asked for")
					fits := n >= 0 && n < most && (max(n, 1)+255)/256*256 <= limit
					if (err == nil) != fits {
						t.Fatalf("%v", err)
					}
					if now, _ := account.Held(); now > limit {
						t.Errorf("%d held", now)
					}
					var short *OutOfMemory
					if err != nil && (!errors.As(err, &short) || short.Limit != limit || !strings.Contains(err.Error(), "asked for")) {
						t.Errorf("%v", err)
					}
					if err == nil {
						if int64(len(c.Bytes)) != n {
							t.Errorf("%d bytes", len(c.Bytes))
						}
						a.Free(c)
					}
					if limit >= 4096 { // the next request succeeds
						if c, err = a.Alloc(4096, "x"); err != nil {
							t.Fatal(err)
						}
						a.Free(c)
					}
				})
			}
		}
	}
}

// TestReserveIsChecked: reserved memory counts against the limit, and too much of it does not wrap
// around.
func TestReserveIsChecked(t *testing.T) {
	for _, strategy := range Strategies() {
		account := NewAccount(10 * kiB)
		a := New(Options{Strategy: Strategy(strategy), Account: account})
		w, err := a.Reserve(8*kiB, "weights")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Reserve(4*kiB, "more weights"); err == nil {
			t.Error("more than the limit is reserved")
		}
		if _, err := a.Alloc(4*kiB, "values"); err == nil {
			t.Error("more than the limit is lent")
		} else {
			for _, want := range []string{"4096 bytes requested for values", "8192 in use", "8192 reserved", "the limit is 10240", "weights (8192)"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
		}
		if c, err := a.Alloc(2*kiB, "values"); err != nil {
			t.Error(err)
		} else {
			a.Free(c)
		}
		if err := a.Close(); err == nil {
			t.Error("a chunk is lent, and that is no error")
		}
		a.Free(w)
		if now, _ := account.Held(); now != 0 {
			t.Errorf("%d held at the end", now)
		}
	}
	over := NewAccount(1)
	if err := over.Take("weights", 2); err == nil {
		t.Error("weights above the limit")
	}
	if err := over.Take("weights", -5); err == nil {
		t.Error("fewer than no bytes")
	}
}

// TestSystem: if the system has less memory, regions are smaller; if it has too little, the error
// says so and nothing is lost.
func TestSystem(t *testing.T) {
	m := &counted{5 * miB}
	a := New(Options{Strategy: NextPowerOfTwo, InitialChunkBytes: 8 * miB, Memory: m})
	c, err := a.Alloc(3*miB, "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Stats().TotalAllocated; got < 3*miB || got > 5*miB {
		t.Errorf("region of %d", got)
	}
	if _, err := a.Alloc(5*miB, "y"); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("%v", err)
	}
	a.Free(c)
	if _, err := a.Alloc(5*miB, "y"); err != nil { // the idle region is freed
		t.Error(err)
	}
}

// TestHeldByPlans: with strategy planned an arena holds no more than the largest block.
func TestHeldByPlans(t *testing.T) {
	a := New(Options{Strategy: Planned, Memory: &counted{most}})
	for range 3 {
		for n := int64(1); n <= 64; n++ {
			c, err := a.Alloc(n*miB, "plan")
			if err != nil {
				t.Fatal(err)
			}
			a.Free(c)
		}
	}
	if s := a.Stats(); s.MaxTotalAllocated != 64*miB || s.NumArenaExtensions != 64 {
		t.Errorf("%+v", s)
	}
}

// TestChunksAreApart: after any allocations and frees chunks do not overlap, free ones are merged,
// and the account has the bytes of the regions.
func TestChunksAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 8*miB).Draw(t, "limit")
		account := NewAccount(limit)
		a := New(Options{Strategy: Strategy(rapid.SampledFrom(Strategies()).Draw(t, "strategy")), Account: account, Off: rapid.IntRange(0, 5).Draw(t, "off") == 0,
			InitialChunkBytes: rapid.Int64Range(1, miB).Draw(t, "initial"), MaxDeadBytes: rapid.Int64Range(1, miB).Draw(t, "dead")})
		type lent struct {
			*Chunk
			mark byte
		}
		var all []lent
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
			case kind < 6:
				ask := a.Alloc
				if kind == 0 {
					ask = a.Reserve
				}
				c, err := ask(rapid.Int64Range(0, 300*kiB).Draw(t, "n"), "x")
				if err != nil {
					continue
				}
				for k := range c.Bytes {
					c.Bytes[k] = byte(i)
				}
				all = append(all, lent{c, byte(i)})
			case kind == 9:
				a.Shrink()
			case len(all) > 0:
				at := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				for _, b := range all[at].Bytes {
					if b != all[at].mark {
						t.Fatal("a chunk was written over")
					}
				}
				a.Free(all[at].Chunk)
				all = append(all[:at], all[at+1:]...)
			}
			s := a.Stats()
			now, _ := account.Held()
			inUse := int64(0)
			for _, c := range all {
				inUse += c.Size()
			}
			if s.TotalAllocated != now || s.InUse != inUse || limit > 0 && now > limit || s.InUse > s.TotalAllocated {
				t.Fatalf("%+v, %d held, %d in use", s, now, inUse)
			}
		}
		for _, c := range all {
			a.Free(c.Chunk)
		}
		for _, r := range a.regions {
			if r.first.next != nil || r.first.size != r.size {
				t.Fatal("free chunks are not joined")
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if now, _ := account.Held(); now != 0 {
			t.Fatalf("%d held at the end", now)
		}
	})
}
