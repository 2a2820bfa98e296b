package forms

import (
	"slices"

	"memopt/internal/graph"
)

// tiling is a choice that is in tiles, of a form that has it or may have it.
type tiling struct {
	*Form
	row    Row
	layers int // that may be in tiles
	taken  []Row
}

// tiling is the form's choice of layers in tiles, if the planner has one.
func (f *Form) tiling(own *Form) (t tiling, ok bool) {
	if own.ask.Compat != "" || own.steps.kind != derived || own.ask.Measured {
		return t, false
	}
	i := slices.IndexFunc(inPieces, func(r Row) bool { return r.Tiles && r.mayTake(own.ask.Settings) })
	if i < 0 {
		return t, false
	}
	t = tiling{Form: f, row: inPieces[i], taken: f.taken}
	if !slices.ContainsFunc(t.taken, func(r Row) bool { return r.Tiles }) {
		t.taken = append(slices.Clone(t.taken), t.row)
	}
	slices.SortStableFunc(t.taken, func(a, b Row) int { return int(a.Pieces) - int(b.Pieces) })
	forward, err := f.steps.of(asked(f.ask.with(t.row.Setting, on).Settings)).outline()
	if err != nil || own.ask.Lowered && !kernelsKeepBits(forward.Graph, t.row.Pieces, own.ask.Dims) {
		return t, false
	}
	for _, n := range forward.Graph.Nodes {
		if n.Op.Pieces == t.row.Pieces && n.Phase == graph.Forward {
			t.layers++
		}
	}
	return t, t.layers > 0
}

// in is the form with another value of the setting.
func (t tiling) in(own *Form, value string) (*Form, error) {
	ask := t.ask.with(t.row.Setting, value)
	c := choice{own: own, ask: ask, taken: t.taken, step: t.steps.of(asked(ask.Settings))}
	return c.form()
}

// whole is how many of the first layers the form leaves whole.
func (t tiling) whole() int {
	if !slices.ContainsFunc(t.Form.taken, func(r Row) bool { return r.Tiles }) {
		return t.layers
	}
	return 0
}

// mostTiles is the largest number of tiles that is tried where fewer tiles are faster.
const mostTiles = 32

// refine replaces the best form by one with fewer layers in tiles where that costs less: the first
// layers stay whole, since at their backward pass little else is in memory. On devices that run
// kernels, it then takes as few tiles as the budget allows.
func (own *trial) refine(b *best) error {
	if !own.ask.compares() || free(b.plan, nil) && b.form == own.Form {
		return nil
	}
	t, ok := b.form.tiling(own.Form)
	if !ok {
		return nil
	}
	try := func(value string, atLeast bool) (better bool, err error) {
		f, wrong := t.in(own.Form, value)
		if wrong != nil {
			return false, nil
		}
		x, err := newTrial(f)
		if err != nil {
			return false, err
		}
		p, wrong := x.best(own.ask.target(b.plan, nil))
		if wrong != nil || !own.ask.prefers(b.plan, nil, p, nil) && !(atLeast && costOf(p) <= costOf(b.plan)) {
			return false, nil
		}
		b.form, b.plan = f, p
		return true, nil
	}
	k, err := around(t.whole(), t.layers, func(whole int) (bool, error) { return try(tiled(whole, 0), false) })
	if err != nil || k == t.layers || !own.ask.Lowered || !own.ask.limited() {
		return err
	}
	for n := 2; n <= mostTiles; n *= 2 {
		if found, err := try(tiled(k, n), true); found || err != nil {
			return err
		}
	}
	return nil
}

// around looks from k on for numbers below n that are better, in smaller and smaller steps, and
// returns the last one.
func around(k, n int, better func(int) (bool, error)) (int, error) {
	for step := n / 2; step > 0 && step >= n/4; step /= 2 {
		for _, x := range []int{k + step, k - step} {
			if x < 0 || x >= n {
				continue
			}
			is, err := better(x)
			if err != nil {
				return k, err
			}
			if is {
				k = x
				break
			}
		}
	}
	return k, nil
}

// inPart is the form with the later half of its layers in tiles, which lies between that with all of
// them and that with none; nil if there is none.
func (f *Form) inPart() *Form {
	t, ok := f.tiling(f)
	if !ok || t.layers < 2 {
		return nil
	}
	part, err := t.in(f, tiled(t.layers/2, 0))
	if err != nil {
		return nil
	}
	return part
}
