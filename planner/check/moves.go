package check

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// moved replays what moves before a launch on the picture of memory. What copies back fill has a tag of its own until
// they have ended, which no launch may read or write over.
func (c *checker) moved(i int) error {
	if len(c.moves.All) == 0 {
		return nil
	}
	if c.flying == nil {
		c.flying = make([]*graph.Value, len(c.moves.All))
	}
	at := int32(i)
	for _, k := range c.moves.Out[at] {
		x := &c.s.Moves[k]
		if !c.holds(&x.From, x.From.Value) {
			return fmt.Errorf("move %d: %s+%d does not hold %q", k, x.From.Space, x.From.Offset, x.From.Value.Name)
		}
		if cell := c.spaces[schedule.Arena].exact(x.From.Offset, x.From.Bytes); cell != nil {
			cell.last = max(cell.last, x.Gone-1)
		}
		for j := range c.s.Moves {
			y := &c.s.Moves[j]
			if j != k && y.From.Value != nil && y.Out <= x.Out && x.Out <= y.Back && x.Far < y.Far+y.From.Bytes && y.Far < x.Far+x.From.Bytes {
				return fmt.Errorf("moves %d and %d overlap elsewhere", k, j)
			}
		}
		c.far = max(c.far, x.Far+x.From.Bytes)
	}
	for _, k := range c.moves.Gone[at] {
		if x := &c.s.Moves[k]; x.Out < at && !c.holds(&x.From, x.From.Value) {
			return fmt.Errorf("move %d: %q was written over while it was copied", k, x.From.Value.Name)
		}
	}
	for _, k := range c.moves.In[at] {
		x := &c.s.Moves[k]
		c.flying[k] = &graph.Value{Name: "the copy of " + x.To.Value.Name}
		c.write(&x.To, c.flying[k])
	}
	for _, k := range c.moves.Back[at] {
		x := &c.s.Moves[k]
		if x.To.Bytes == 0 {
			continue
		}
		cell := c.spaces[schedule.Arena].exact(x.To.Offset, x.To.Bytes)
		if cell == nil || cell.v != c.flying[k] {
			return fmt.Errorf("move %d: the place that %q comes back to is used meanwhile", k, x.To.Value.Name)
		}
		cell.last = at
		c.write(&x.To, x.To.Value)
	}
	return nil
}

// streamed says why a launch cannot have what it reads and writes elsewhere brought a piece at a time.
func streamed(l *schedule.Launch) error {
	for _, refs := range [][]schedule.Ref{l.In, l.Out} {
		for _, r := range refs {
			if r.Space == schedule.Elsewhere && r.Value != nil && (l.Node == nil || l.Node.Phase != graph.Updating || !l.Node.Op.Streams || l.Parts != nil) {
				return fmt.Errorf("touches %q, which only an update can that takes a piece at a time", r.Value.Name)
			}
		}
	}
	return nil
}
