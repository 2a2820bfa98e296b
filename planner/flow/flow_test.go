package flow

import (
	"context"
	"math/rand/v2"
	"testing"
)

// TestFlow: what Reach marks is, of all cuts of least capacity, the one with the fewest vertices; also after capacities were raised.
func TestFlow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	several := 0
	for n := range 2000 {
		type edge struct {
			from, to int32
			most     int64
		}
		var net Network
		vertices := 3 + r.IntN(6)
		edges := make([]edge, 1+r.IntN(20))
		net.Reset(context.Background(), vertices, len(edges))
		for i := range edges {
			edges[i] = edge{int32(r.IntN(vertices)), int32(r.IntN(vertices)), int64(r.IntN(5))}
			net.Edge(edges[i].from, edges[i].to, edges[i].most)
		}
		for range 2 {
			least, smallest, met := int64(-1), 0, 0
			for side := range 1 << vertices {
				if side>>Source&1 == 0 || side>>Sink&1 == 1 {
					continue
				}
				sum := int64(0)
				for _, e := range edges {
					if side>>e.from&1 == 1 && side>>e.to&1 == 0 {
						sum += e.most
					}
				}
				switch {
				case least < 0 || sum < least:
					least, smallest, met = sum, side, 1
				case sum == least: // the sides of two such cuts have one in common
					smallest, met = smallest&side, met+1
				}
			}
			if met > 1 {
				several++
			}
			net.Flow()
			got := 0
			for v, is := range net.Reach() {
				if is {
					got |= 1 << v
				}
			}
			if got != smallest {
				t.Fatalf("network %d of %v: the side %b, want %b", n, edges, got, smallest)
			}
			for i := range edges {
				more := int64(r.IntN(3))
				edges[i].most += more
				net.Cap[2*i] += more
			}
		}
	}
	if several == 0 {
		t.Error("no network has several cuts of least capacity")
	}
}
