package fit

import (
	"errors"
	"testing"

	"memopt/configs"
	"memopt/planner"
)

// search tries settings that fit if they are listed, alone or together; for some there is no time.
func search(fits ...string) *Search {
	return &Search{Asked: configs.Default(), Try: func(set ...planner.Setting) (Takes, error) {
		all := ""
		for _, s := range set {
			all += s.Name + "=" + s.Value + " "
		}
		for _, f := range fits {
			if all == f+" " {
				return Takes{Bytes: 3 << 20, Of: InAll, Extra: 0.125, Unit: "compute"}, nil
			}
		}
		if set[0].Name == "lossy" {
			return Takes{}, &ErrLong{"planning takes long"}
		}
		return Takes{}, ErrShort
	}}
}

func TestOffers(t *testing.T) {
	shrink, chunk := Change("shrink", "auto"), Change("chunk_loss", "auto")
	for _, c := range []struct {
		s    *Search
		want string
		note string
	}{
		{search(), "", "not computed, as planning takes long: --lossy"},
		{search("shrink=auto"), "; would fit: --shrink auto (3 MiB in all)", "not computed, as planning takes long: --lossy"},
		{search("shrink=auto", "chunk_loss=auto"), "; would fit: --shrink auto (3 MiB in all), or --chunk-loss auto (3 MiB in all)", "not computed, as planning takes long: --lossy"},
		{search("shrink=auto chunk_loss=auto"), "; would fit: --shrink auto --chunk-loss auto (3 MiB in all)", "not computed, as planning takes long: --lossy"},
		{search("lossy=fp8"), "; would fit: --lossy fp8 (+12.5 % compute; gradients are less exact)", "not computed, as planning takes long: --lossy"},
		{search("lossy=bf16", "lossy=fp8"), "; would fit: --lossy bf16 (+12.5 % compute)", ""},
	} {
		c.s.Together(shrink, chunk)
		c.s.First(Change("lossy", "bf16").Costing(), Change("lossy", "fp8").Costing().And("gradients are less exact"))
		if got := c.s.Spell(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if got := c.s.Note(); got != c.note {
			t.Errorf("%q, want %q", got, c.note)
		}
	}
}

// TestSize: of all sizes below the one that does not fit the largest that does is offered, and none if not even 1 fits.
func TestSize(t *testing.T) {
	for now := int64(1); now < 40; now++ {
		for most := int64(0); most < now; most++ {
			s, asked := search(), 0
			if err := s.Size("batch", now, func(n int64) error {
				if asked++; n > most {
					return ErrShort
				}
				return nil
			}); err != nil || s.SizeFound("batch") != most {
				t.Errorf("of %d sizes %d is offered, want %d (%v)", now, s.SizeFound("batch"), most, err)
			}
			if asked > 7 {
				t.Errorf("of %d sizes %d are tried", now, asked)
			}
		}
	}
	s := search()
	if err := s.Size("batch", 8, func(int64) error { return errors.New("its driver is gone") }); err == nil || s.Note() != "not computed, as its driver is gone: --dims" {
		t.Errorf("%v, %q", err, s.Note())
	}
}
