package weights_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"memopt/internal/weights"
)

// TestStore: equal contents are made once, live as long as somebody holds them, and are made anew after that. Contents that
// only have the same hash are others.
func TestStore(t *testing.T) {
	var store weights.Store[[]byte]
	alive := 0
	hold := func(b []byte) (*weights.Shared[[]byte], bool) {
		same := func(o []byte) bool { return string(o) == string(b) }
		x, made, err := store.Hold(weights.Sum{1}, int64(len(b)), same, func() ([]byte, error) { alive++; return b, nil }, func([]byte) { alive-- })
		if err != nil {
			t.Fatal(err)
		}
		return x, made
	}
	a, made := hold([]byte("one"))
	b, again := hold([]byte("one"))
	c, other := hold([]byte("two"))
	if !made || again || !other || a != b || a == c || alive != 2 || a.Users() != 2 {
		t.Errorf("made %v %v %v, %d alive", made, again, other, alive)
	}
	if s := store.Stats(); s != (weights.StoreStats{Blocks: 2, Bytes: 6, Shared: 3}) {
		t.Errorf("stats %+v", s)
	}
	a.Drop()
	b.Drop()
	if _, made := hold([]byte("one")); !made || alive != 2 {
		t.Errorf("after the last use: made %v, %d alive", made, alive)
	}
	refused := errors.New("no")
	if _, _, err := store.Hold(weights.Sum{2}, 1, nil, func() ([]byte, error) { return nil, refused }, nil); err != refused || store.Stats().Blocks != 2 {
		t.Errorf("what cannot be made: %v, %+v", err, store.Stats())
	}
	c.Drop()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a drop too many is no mistake")
			}
		}()
		c.Drop()
	}()
}

// TestStoreTogether: many hold and drop at once, and at the end nothing is left.
func TestStoreTogether(t *testing.T) {
	var store weights.Store[int]
	var mu sync.Mutex
	alive := map[byte]int{}
	var wait sync.WaitGroup
	for w := range uint64(8) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			rng := rand.New(rand.NewPCG(w, 1))
			var mine []*weights.Shared[int]
			for range 2000 {
				if len(mine) > 0 && rng.IntN(2) == 0 {
					i := rng.IntN(len(mine))
					mine[i].Drop()
					mine[i] = mine[len(mine)-1]
					mine = mine[:len(mine)-1]
					continue
				}
				k := byte(rng.IntN(5))
				x, _, _ := store.Hold(weights.Sum{k}, 10, nil, func() (int, error) {
					mu.Lock()
					defer mu.Unlock()
					if alive[k]++; alive[k] > 1 {
						t.Error("made twice")
					}
					return int(k), nil
				}, func(int) {
					mu.Lock()
					defer mu.Unlock()
					alive[k]--
				})
				if x.Value != int(k) {
					t.Error("another's contents")
				}
				mine = append(mine, x)
			}
			for _, x := range mine {
				x.Drop()
			}
		}()
	}
	wait.Wait()
	if s := store.Stats(); s.Blocks != 0 || s.Bytes != 0 || s.Shared != 0 {
		t.Errorf("left: %+v", s)
	}
}

// TestProbe: equal bytes have equal probes, and one of another length or with other ends does not.
func TestProbe(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i * 7)
	}
	a := append([]byte{}, b...)
	if weights.Probe(a) != weights.Probe(b) {
		t.Error("equal bytes, other probes")
	}
	a[len(a)-1]++
	if weights.Probe(a) == weights.Probe(b) || weights.Probe(b[1:]) == weights.Probe(b) {
		t.Error("other bytes, equal probes")
	}
}
