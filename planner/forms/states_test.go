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
