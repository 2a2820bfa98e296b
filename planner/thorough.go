package planner

import (
	"math"

	"memopt/planner/recompute"
)

// Where gaps are wide, limits of a staircase are solved quickly, as it takes many of them. The
// plan that a request gets is then looked for once more with all the work that one limit may take.
// That must not depend on the limit within a rung's width, and must not be cheaper than what limits
// above have: so it is looked for at the rung below the limit, and is taken if it costs no less
// than the plan of the next rung does, which may have been looked for in the same way.

// thorough is the plan of a limit, better than c, which the staircase has there, if more work finds one.
func (v *solver) thorough(limit int64, c *candidate) (*candidate, error) {
	l := &v.ladder
	if c == v.base || v.small() || l.halving == 0 {
		return c, nil
	}
	k := l.rungOf(limit)
	if k == 0 {
		return c, nil
	}
	better, err := v.improved(k, 1)
	if err != nil {
		return nil, err
	}
	return cheaper(c, better), nil
}

// improved is a plan for a rung that is cheaper than the staircase's, or that plan; nil if it has none.
// It costs no less than that of the next rung does, which may be improved in its turn as often.
func (v *solver) improved(k int64, more int) (*candidate, error) {
	l := &v.ladder
	c, err := l.onRung(k)
	if c == nil || c == v.base || err != nil {
		return c, err
	}
	if bound, ok := l.early(l.rung(k)); !ok || !v.r.Wide(c.cost, bound) {
		return c, nil
	}
	better, err := v.fully(l.rung(k))
	if better == nil || better.cost >= c.cost || err != nil {
		return c, err
	}
	above, err := l.onRung(k + 1)
	if err == nil && more > 0 && better.cost < above.cost {
		above, err = v.improved(k+1, more-1)
	}
	if err != nil || better.cost < above.cost {
		return c, err
	}
	return better, nil
}

// fully is the plan within a limit that all work finds, or nil.
func (v *solver) fully(limit int64) (*candidate, error) {
	if c, known := v.full[limit]; known {
		return c, nil
	}
	f, err := v.by(func(limit int64) (recompute.Answer, bool) { return v.asked(v.r.Solve(limit)) }, limit, math.Inf(1), 0)
	if err != nil {
		return nil, err
	}
	if v.full == nil {
		v.full = map[int64]*candidate{}
	}
	v.full[limit] = f.plan
	return f.plan, nil
}
