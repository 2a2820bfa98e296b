package vulkan

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// TestLanesInOrder: batches of any lanes that touch the same bytes, one of them writing, are in order: by their lane, or by what
// one waits for. One that touches nothing of any other waits for none.
func TestLanesInOrder(t *testing.T) {
	p, err := Choose(os.Getenv("MEMOPT_TEST_VULKAN"))
	if err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c, err := newContext(p)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.gpu.MakeLanes(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 7))
	spans := func() (all []span) {
		for range rng.IntN(3) {
			at := rng.Int64N(100)
			all = append(all, span{schedule.Space(rng.IntN(2)), at, at + 1 + rng.Int64N(12)})
		}
		return all
	}
	for round := range 50 {
		l := laned{d: &Device{gpu: c.gpu}}
		var touches []hazards
		batches := 1 + rng.IntN(30)
		if round%10 == 0 {
			batches = 5 * groupsBack // so that those of long ago are in one
		}
		for range batches {
			h := hazards{spans(), spans()}
			if err := l.add(vk.Lane(rng.IntN(int(vk.Lanes))), []vk.Command{{Kind: vk.Barrier}}, h); err != nil {
				t.Fatal(err)
			}
			touches = append(touches, h)
		}
		for _, lane := range l.lanes {
			if most := 100 / 2; len(lane.last) > groupsBack || len(lane.old.reads) > 2*most || len(lane.old.writes) > 2*most {
				t.Fatalf("%d batches are compared, and %d and %d spans of those before", len(lane.last), len(lane.old.reads), len(lane.old.writes))
			}
		}
		// behind is, by batch, those that have ended when it begins.
		behind := make([]map[int]bool, len(l.batches))
		var lanes [vk.Lanes][]int
		for i, b := range l.batches {
			behind[i] = map[int]bool{}
			after := func(k int) {
				behind[i][k] = true
				for x := range behind[k] {
					behind[i][x] = true
				}
			}
			if same := lanes[b.Lane]; len(same) > 0 {
				after(same[len(same)-1])
			}
			for lane, n := range b.Waits {
				if n > 0 {
					after(lanes[lane][n-1])
				}
			}
			lanes[b.Lane] = append(lanes[b.Lane], i)
			meeting := false
			for k := range i {
				meets := touches[k].between(touches[i].reads, touches[i].writes)
				meeting = meeting || meets
				if meets && !behind[i][k] {
					t.Fatalf("batch %d touches what batch %d does, and does not wait for it: %+v", i, k, l.batches)
				}
			}
			if waits := b.Waits != [vk.Lanes]int{}; waits && !meeting {
				t.Fatalf("batch %d waits for nothing that it touches", i)
			}
		}
		if round == 1 {
			submit := func() {
				if err := c.gpu.SubmitLanes(l.batches, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			if submit(); testing.AllocsPerRun(3, submit) != 0 {
				t.Error("a submission makes garbage")
			}
		}
		for _, b := range l.batches {
			c.gpu.FreeList(b.List)
		}
	}
}
