package forms

import (
	"errors"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/profile"
)

// TestStatesByBudget: as many states leave as a budget asks for. A plan is found where one is with all elsewhere, none leaves where
// everything fits, and no choice of none or all takes less with its copies.
func TestStatesByBudget(t *testing.T) {
	s, _ := stepsOf(t, zoo.Spec{Family: "mlp", Width: 256, Layers: 3})
	prices, err := profile.For("h100")
	if err != nil {
		t.Fatal(err)
	}
	some := 0
	for _, percent := range []float64{100, 90, 80, 70, 60, 50, 40} {
		for _, p := range []*profile.Profile{prices, nil} {
			ask := askOf(map[string]int64{"batch": 64}, 0)
			ask.Profile, ask.Budget = p, planner.Size{Percent: percent}
			if ask, err = s.InBytes(ask); err != nil {
				t.Fatal(err)
			}
			none, wrong := s.Best(ask)
			if wrong != nil && !isShort(wrong) {
				t.Fatal(wrong)
			}
			ask.States = profile.Host
			all, short := s.Best(ask)
			ask.StatesByBudget = true
			got, err := s.Best(ask)
			if (short == nil) != (err == nil) {
				t.Errorf("%v %%: %v with all elsewhere, %v with as many as it asks for", percent, short, err)
			}
			if err != nil {
				continue
			}
			sent := got.Streamed()
			if got.Memory.Total > ask.Budget.Bytes {
				t.Errorf("%v %%: %d bytes of %d", percent, got.Memory.Total, ask.Budget.Bytes)
			}
			if percent == 100 && (sent.Parameters > 0 || sent.Bytes > 0 || got.Memory.Total != none.Memory.Total) {
				t.Errorf("everything fits, and %+v", sent)
			}
			for _, other := range []*planner.Plan{none, all} {
				if other != nil && p != nil && taken(got) > taken(other) {
					t.Errorf("%v %%: %+v takes %v, %+v %v", percent, sent, taken(got), other.Streamed(), taken(other))
				}
			}
			if sent.Parameters > 0 && sent.Stay > 0 {
				some++
			}
			if none != nil && p == nil && sent.Parameters > 0 {
				t.Errorf("%v %%: %+v, where nothing has to leave", percent, sent)
			}
			if sent.Bytes+sent.StayBytes < all.Streamed().Bytes-4096 || sent.Bytes+sent.StayBytes > all.Streamed().Bytes+4096 {
				t.Errorf("%+v is not what %+v is", sent, all.Streamed())
			}
		}
	}
	if some == 0 {
		t.Error("no budget had some states leave and others stay")
	}
}

// TestFrontierOfStates: where a budget chooses how many states leave, the frontier goes down in total and up in time with its copies,
// keeps all states where that is cheaper, ends below what is lowest with all in memory, and no plan of such a budget takes longer.
func TestFrontierOfStates(t *testing.T) {
	s, _ := stepsOf(t, zoo.Spec{Family: "mlp", Width: 256, Layers: 3})
	prices, err := profile.For("h100")
	if err != nil {
		t.Fatal(err)
	}
	for _, moving := range []*planner.Elsewhere{nil, {Place: profile.Host}} {
		ask := askOf(map[string]int64{"batch": 64}, 0)
		ask.Profile = prices
		stay, err := s.Frontier(ask)
		if err != nil {
			t.Fatal(err)
		}
		ask.States, ask.StatesByBudget = profile.Host, true
		if ask.Elsewhere = moving; moving != nil {
			ask.HostBudget = 5 << 19
		}
		c, err := s.Frontier(ask)
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[int]bool{}
		for i, p := range c.Points {
			at := 0
			if p.Sent != nil {
				if at = p.Sent.Parameters; ask.HostBudget > 0 && p.Sent.Bytes > ask.HostBudget {
					t.Errorf("%d bytes of states where %d may lie", p.Sent.Bytes, ask.HostBudget)
				}
			}
			numbers[at] = true
			if i > 0 && (p.Total >= c.Points[i-1].Total || p.Overhead <= c.Points[i-1].Overhead) {
				t.Errorf("%d bytes at %v come after %d at %v", p.Total, p.Overhead, c.Points[i-1].Total, c.Points[i-1].Overhead)
			}
			if i%4 > 0 { // planning takes longest
				continue
			}
			ask.Budget = planner.Size{Bytes: p.Total}
			got, err := s.Best(ask)
			if err != nil {
				t.Errorf("%d bytes, %+v: %v", p.Total, p.Sent, err)
				continue
			}
			if _, plain := got.Cost(); taken(got) > plain*(1+p.Overhead)*1.001 {
				t.Errorf("a plan of %d bytes takes %v, and the frontier has %v", p.Total, taken(got), plain*(1+p.Overhead))
			}
		}
		if ask.Budget = (planner.Size{}); len(numbers) < 3 || !numbers[0] || !c.ByTotal {
			t.Errorf("the frontier has points with the states of %v parameters elsewhere", numbers)
		}
		if low, was := c.Points[len(c.Points)-1], stay.Points[len(stay.Points)-1]; low.Total >= was.Total || low.Sent == nil {
			t.Errorf("the lowest has %d bytes, and %d with all states in memory", low.Total, was.Total)
		}
	}
}

// taken is what a step and its copies of states take.
func taken(p *planner.Plan) float64 {
	cost, _ := p.Cost()
	if sent := p.Streamed(); sent != nil {
		cost += float64(sent.CopyNS)
	}
	return cost
}

func isShort(err error) bool {
	var none *planner.BudgetError
	return errors.As(err, &none)
}
