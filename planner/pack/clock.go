package pack

import "math"

// clock says how much longer many lives may be packed. It counts looks and not seconds, so that the same problem has the same
// packing on any machine: a look is about what one at a life on the way of a skyline costs, or one at what a life would drive
// out, and of work that two cores share only half counts. Nobody stops in the middle for it: what costs more than there is left
// is not begun.
type clock struct {
	left  int
	given int  // to begin with
	busy  bool // what else is tried at the same time leaves one core
}

const (
	perLife  = 1650   // looks that a life is worth; 20 000 lives take about half a second at most, on two cores
	leastFor = 20_000 // lives, as which fewer count
)

// What is done once for each life costs so many looks.
const (
	ordering = 20   // to sort lives by what they are
	placing  = 100  // to put one in with a space, beside the looks of that
	climbing = 1750 // of both cores, for a climb in stages at most
	scanty   = 600  // and at least
	starting = 650  // of both cores, for the first strategy and the first routes
	lightly  = 2    // looks of a mend cost as much as one
	deeply   = 4    // and looks of a search or a push
)

// worthOf is what all parts of a problem of so many lives are worth.
func worthOf(lives int) int { return perLife * max(lives, leastFor) }

// spend takes work of one core off c. Few lives have no clock, and all the time that they need.
func (c *clock) spend(looks int) {
	if c != nil {
		c.left -= looks
	}
}

// share takes work that two cores share off c.
func (c *clock) share(looks int) {
	if c != nil && !c.busy {
		looks /= 2
	}
	c.spend(looks)
}

// alone is how much work of one core can be done.
func (c *clock) alone() int {
	if c == nil {
		return math.MaxInt
	}
	return c.left
}

// shared is how much work that two cores share can be done.
func (c *clock) shared() int {
	switch {
	case c == nil:
		return math.MaxInt
	case c.busy:
		return c.left
	}
	return 2 * c.left
}

// light is how many light looks of one core there are left.
func (c *clock) light() int { return min(c.alone(), math.MaxInt/lightly) * lightly }

// deep is how many looks of one core there are left to a search or a push.
func (c *clock) deep() int { return min(c.alone(), math.MaxInt/deeply) * deeply }

// apart is a clock for one of the attempts that are made two side by side, if a core makes so many of them after each other.
func (c *clock) apart(inTurn int) *clock {
	if c == nil {
		return nil
	}
	left := c.left / inTurn
	if c.busy {
		left /= 2
	}
	return &clock{left: left, given: left, busy: true}
}

// joined takes what attempts with clocks apart have spent off c: those of them that came to their ends.
func (c *clock) joined(apart []*clock) {
	if c == nil {
		return
	}
	all, most := 0, 0
	for _, a := range apart {
		all, most = all+a.given-a.left, max(most, a.given-a.left)
	}
	if c.busy {
		c.spend(all)
	} else {
		c.spend(max(most, all/2))
	}
}

// timed packs the parts of a problem one after another. Those of many lives each have their share of the clock, and what the
// ones before have left.
func timed(parts []*part, pack func(p *part)) {
	all := 0
	for _, p := range parts {
		all += len(p.lives)
	}
	c := &clock{}
	for _, p := range parts {
		if len(p.lives) > few {
			c.left += worthOf(all) / all * len(p.lives)
			p.clock = c
		}
		pack(p)
		p.clock = nil
	}
}
