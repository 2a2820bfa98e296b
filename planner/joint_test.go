package planner_test

import (
	"testing"

	"memopt/memopt/joint"
	"memopt/planner"
)

// TestBetterThanCheckpointing: within the bytes that PyTorch needs when it
// checkpoints 2, 4 and 6 blocks of 6, a plan repeats no more operations.
func TestBetterThanCheckpointing(t *testing.T) {
	g, err := joint.Read("../memopt/joint/testdata/gpt2-6L.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ mib, flops float64 }{{198.2, 1.06}, {153.1, 1.12}, {108, 1.18}} {
		limit := int64(c.mib * (1 << 20))
		p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Bytes: limit}})
		if err != nil {
			t.Fatal(err)
		}
		flops := 1 + float64(p.Result.ExtraFlops)/float64(p.Result.Flops)
		t.Logf("%.1f MiB: %.4f × the operations, gap %.3f points", c.mib, flops, 100*p.Bound.Gap)
		if p.Arena > limit || flops > c.flops {
			t.Errorf("%d bytes for %d, %.4f × the operations, over %.2f", p.Arena, limit, flops, c.flops)
		}
	}
}

// TestFiftyBudgets: less memory never costs less nor needs more, on models as
// PyTorch runs them.
func TestFiftyBudgets(t *testing.T) {
	for _, name := range []string{"gpt2-6L", "resnet18"} {
		g, err := joint.Read("../memopt/joint/testdata/" + name + ".json.gz")
		if err != nil {
			t.Fatal(err)
		}
		var before *planner.Plan
		for i := range 50 {
			percent := 95 - float64(i)*1.1
			p, err := planner.Make(g, planner.Request{ActivationBudget: planner.Size{Percent: percent}})
			if err != nil {
				break // below the lowest plan
			}
			if float64(p.Arena) > float64(p.Baseline.Arena)*percent/100 {
				t.Errorf("%s: %d bytes are over %.1f %%", name, p.Arena, percent)
			}
			if before != nil && (p.Result.Overhead < before.Result.Overhead-1e-12 || p.Result.Peak > before.Result.Peak || p.Arena > before.Arena) {
				t.Errorf("%s: %.1f %%: cost %v, peak %d, arena %d after cost %v, peak %d, arena %d for more", name, percent,
					p.Result.Overhead, p.Result.Peak, p.Arena, before.Result.Overhead, before.Result.Peak, before.Arena)
			}
			before = p
		}
	}
}
