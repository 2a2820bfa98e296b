// Package check holds plans against their graphs, by another route than the one that made them.
//
// The launches that the steps and the places of a plan come to (planner/launch) are replayed on a picture of memory in which
// every byte range is tagged with the value that was last written there (memory.go): a read that finds another tag is a use
// before computation, an overlap or a stale parameter, whatever caused it. Then all that a plan says of itself (claims.go) is
// held against what the replay found, and against prices that are worked out again from the operators (prices.go). Nothing is
// shared with the planner's model but what a single operator says (planner/operators) and the order of what lies outside the
// arena (planner/outside).
package check

import (
	"context"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/planner/launch"
	"memopt/planner/operators"
	"memopt/planner/outside"
)

// Error is why a plan is invalid.
func Error(format string, args ...any) error {
	return fmt.Errorf("the plan is wrong: "+format, args...)
}

// Replayed is a plan whose launches read what they should.
type Replayed struct {
	p     launch.Plan
	s     *schedule.Schedule
	c     *checker
	bytes []int64 // by value
}

// Replay works out the launches of a plan and replays them.
func Replay(p launch.Plan) (*Replayed, error) {
	x, err := launch.Of(p)
	if err != nil {
		return nil, err
	}
	c := newChecker(p, x.Schedule)
	if err := c.run(p.Graph, x.Each); err != nil {
		return nil, Error("%w", err)
	}
	return &Replayed{p, x.Schedule, c, x.Bytes}, nil
}

// ReplayAs replays a schedule that may be another than the plan's own: one whose launches stand in chains.
func ReplayAs(p launch.Plan, s *schedule.Schedule) (*Replayed, error) {
	_, bytes, err := operators.Sizes(p.Graph, s.Binding)
	if err != nil {
		return nil, err
	}
	c := newChecker(p, s)
	c.lives = &[]schedule.Life{}
	if err := c.run(p.Graph, s.Each); err != nil {
		return nil, Error("%w", err)
	}
	return &Replayed{p, s, c, bytes}, nil
}

// Lives are the lives that are left of a schedule that was replayed: each range from the launch that writes it to the last that
// reads it.
func (x *Replayed) Lives() ([]schedule.Life, error) {
	if x.c.height > x.s.Arena {
		return nil, Error("the arena is %d bytes, but launches reach to %d", x.s.Arena, x.c.height)
	}
	x.c.peak() // what is alive to the end has ended, too
	return *x.c.lives, nil
}

func newChecker(p launch.Plan, s *schedule.Schedule) *checker {
	return &checker{ctx: p.Context, s: s, change: make([]int64, len(p.Steps)+1), moves: outside.ByLaunch(p.Moves)}
}

type checker struct {
	ctx    context.Context // polled at each launch
	s      *schedule.Schedule
	spaces [schedule.Spaces]memory
	height int64
	now    int32                   // the launch at hand
	change []int64                 // by launch: bytes of the arena in use, beyond the launch before
	writes []*schedule.Ref         // scratch
	lives  *[]schedule.Life        // where those that have ended go, if anywhere
	held   map[*graph.Value]*first // values held outside the graph
	ends   map[*graph.Node][]*graph.Value
	behind bool // no border is to come
	moves  outside.Launches
	flying []*graph.Value // by move: what its copy back is tagged with
	far    int64          // bytes elsewhere
}

// owner is what a range that holds a value is tagged with: of a view, what it is of.
func (c *checker) owner(v *graph.Value) *graph.Value { return c.s.Shows[v.ID] }

// first is where a value was written first.
type first struct {
	schedule.Ref
	remade bool // it was written there again
}

func (c *checker) run(g *graph.Graph, launches func(yield func(i int, l *schedule.Launch) error) error) error {
	for i := range c.s.Fixed {
		r := &c.s.Fixed[i]
		if r.Bytes > 0 && c.spaces[r.Space].any(r.Offset, r.Bytes) {
			return fmt.Errorf("%q overlaps another value in %s", r.Value.Name, r.Space)
		}
		c.write(r, r.Value)
	}
	c.held, c.ends = map[*graph.Value]*first{}, map[*graph.Node][]*graph.Value{}
	for _, h := range g.Holds {
		if v := c.owner(h.Value); v.Def != nil {
			c.held[v], c.ends[h.Until] = &first{}, append(c.ends[h.Until], v)
		}
	}
	c.behind = !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Border })
	ran := make([]int32, len(g.Nodes))
	if err := launches(func(i int, l *schedule.Launch) error {
		stop.Poll(c.ctx)
		return c.launch(i, l, ran)
	}); err != nil {
		return err
	}
	for i, times := range ran {
		if times == 0 && !g.Nodes[i].Op.View {
			return fmt.Errorf("node %q never runs", g.Nodes[i].Name)
		}
	}
	for i := range c.s.Outputs {
		if err := c.reads(&c.s.Outputs[i]); err != nil {
			return fmt.Errorf("after the last launch: %w", err)
		}
	}
	// Every state holds what the step made of it; every other still itself.
	updated := make([]int32, len(g.Values)) // by value: its update, counted from 1
	for i, u := range g.Updates {
		updated[u.State.ID] = int32(i + 1)
	}
	for i := range c.s.Fixed {
		r := &c.s.Fixed[i]
		want := r.Value
		if u := updated[want.ID]; u > 0 {
			want = g.Updates[u-1].New
		}
		if !c.holds(r, want) {
			return fmt.Errorf("after the step, the place of %q does not hold %q", r.Value.Name, want.Name)
		}
	}
	return nil
}

// launch replays one; ran counts the runs of each node.
func (c *checker) launch(i int, l *schedule.Launch, ran []int32) error {
	if l.Node == nil {
		// Copies come after the step: what they read lasts to its end.
		if err := c.reads(&l.In[0]); err != nil {
			return fmt.Errorf("launch %d (copy): %w", i, err)
		}
		c.write(&l.Out[0], c.owner(l.In[0].Value))
		return nil
	}
	if i+1 >= len(c.change) {
		c.change = append(c.change, make([]int64, i+2-len(c.change))...)
	}
	c.now = int32(i)
	if err := c.moved(i); err != nil {
		return fmt.Errorf("before launch %d: %w", i, err)
	}
	where := func(err error) error {
		return fmt.Errorf("launch %d, node %q (%s): %w", i, l.Node.Name, l.Node.Op.Name, err)
	}
	if l.Parts == nil {
		if err := c.part(l, ran); err != nil {
			return where(err)
		}
	} else if err := c.chain(l, ran); err != nil {
		return where(err)
	}
	for k := range l.In {
		if l.In[k].Value == nil {
			continue
		}
		if err := c.reads(&l.In[k]); err != nil {
			return where(err)
		}
	}
	if err := c.apart(l); err != nil {
		return where(err)
	}
	if err := streamed(l); err != nil {
		return where(err)
	}
	if l.Scratch.Bytes > 0 {
		c.write(&l.Scratch, nil)
	}
	for k := range l.Out {
		r := &l.Out[k]
		if r.Value == nil {
			continue
		}
		if r.Space == schedule.Staging || (r.Space == schedule.State || r.Space == schedule.Elsewhere) && l.Node.Op.Overwrites == nil {
			return where(fmt.Errorf("writes to %s", r.Space))
		}
		c.write(r, r.Value)
		if h := c.held[r.Value]; h != nil && l.Again {
			h.remade = h.remade || r.Overlaps(&h.Ref)
		} else if h != nil {
			h.Ref = *r
		}
	}
	parts := l.Parts
	if parts == nil {
		parts = []schedule.Launch{*l}
	}
	for i := range parts {
		if err := c.heldInPlace(&parts[i]); err != nil {
			return where(err)
		}
	}
	return nil
}

// heldInPlace: a value held until a node has run is in its first place.
func (c *checker) heldInPlace(l *schedule.Launch) error {
	if len(c.ends) == 0 || l.Again {
		return nil
	}
	for _, v := range c.ends[l.Node] {
		h := c.held[v]
		if h.Value == nil {
			return fmt.Errorf("%q is held until here, but was not made", v.Name)
		}
		if err := c.reads(&h.Ref); err != nil {
			return fmt.Errorf("%q is held until here: %w", v.Name, err)
		}
		if h.remade {
			return fmt.Errorf("%q is held until here, but was dropped and made again", v.Name)
		}
	}
	return nil
}

// part: a node runs with its own values, and again only where it may.
func (c *checker) part(l *schedule.Launch, ran []int32) error {
	n := l.Node
	if n.Op.View {
		return fmt.Errorf("a view is no launch")
	}
	ran[n.ID]++
	c.behind = c.behind || n.Op.Border
	switch {
	case !c.behind && n.Phase != graph.Forward:
		return fmt.Errorf("runs before the border that ends the forward pass")
	case !l.Again && ran[n.ID] > 1:
		return fmt.Errorf("runs twice for the first time")
	case l.Again && ran[n.ID] == 1:
		return fmt.Errorf("runs again before it ran")
	case l.Again && (n.Op.Recompute == graph.Never || n.Phase != graph.Forward):
		return fmt.Errorf("may not run again")
	}
	if len(l.In) != len(n.Inputs) || len(l.Out) != len(n.Outputs) {
		return fmt.Errorf("%d inputs and %d outputs", len(l.In), len(l.Out))
	}
	for k, v := range n.Inputs {
		if l.In[k].Value != v {
			return fmt.Errorf("input %d is another value", k)
		}
	}
	for k, v := range n.Outputs {
		if l.Out[k].Value != v {
			return fmt.Errorf("output %d is another value", k)
		}
	}
	return nil
}

// chain: the parts of one read what that reads or what a part before has made, and what it stores is made by a part, at
// its place.
func (c *checker) chain(l *schedule.Launch, ran []int32) error {
	same := func(a, b schedule.Ref) bool {
		return a.Value == b.Value && a.Space == b.Space && a.Offset == b.Offset && a.Bytes == b.Bytes
	}
	made := map[*graph.Value]schedule.Ref{}
	for i := range l.Parts {
		part := &l.Parts[i]
		if err := c.part(part, ran); err != nil {
			return err
		}
		for _, r := range part.In {
			if _, is := made[r.Value]; !is && !slices.ContainsFunc(l.In, func(x schedule.Ref) bool { return same(x, r) }) {
				return fmt.Errorf("%q reads %q, which the chain does not", part.Node.Name, r.Value.Name)
			}
		}
		made[part.Out[0].Value] = part.Out[0]
	}
	for _, r := range l.Out {
		if !same(made[r.Value], r) {
			return fmt.Errorf("%q is stored, but not made there", r.Value.Name)
		}
	}
	return nil
}

// apart: what a launch writes begins where a device can, and overlaps neither what it reads, unless the operator allows
// it there, nor its other outputs and work space.
func (c *checker) apart(l *schedule.Launch) error {
	n := l.Node
	name := func(i int) string {
		if i == len(l.Out) {
			return "work space"
		}
		return fmt.Sprintf("output %d", i)
	}
	writes := c.writes[:0]
	for i := range l.Out {
		writes = append(writes, &l.Out[i])
	}
	if l.Scratch.Bytes > 0 {
		writes = append(writes, &l.Scratch)
	}
	c.writes = writes
	for i, w := range writes {
		if w.Bytes == 0 {
			continue
		}
		if w.Offset%schedule.Aligned != 0 {
			return fmt.Errorf("%s begins at %s+%d, which is no multiple of %d", name(i), w.Space, w.Offset, schedule.Aligned)
		}
		for j, o := range writes[:i] {
			if w.Overlaps(o) {
				return fmt.Errorf("%s and %s overlap", name(j), name(i))
			}
		}
		for k := range l.In {
			r := &l.In[k]
			if r.Value == nil || !w.Overlaps(r) {
				continue
			}
			same := w.Offset == r.Offset && w.Bytes == r.Bytes
			over := i < len(l.Out) && n.Op.Overwrites != nil && n.Op.Overwrites[i] == k
			inPlace := i < len(l.Out) && (i == 0 || l.Parts != nil) && n.OverInput(k)
			if !same || !over && !inPlace {
				return fmt.Errorf("%s is written over input %d (%s)", name(i), k, r.Value.Name)
			}
		}
	}
	return nil
}

// reads: the range holds the value's content, whole.
func (c *checker) reads(r *schedule.Ref) error {
	if r.Bytes == 0 {
		return nil
	}
	x := c.spaces[r.Space].exact(r.Offset, r.Bytes)
	if x != nil && c.shows(x, r.Value) {
		x.last = c.now
		return nil
	}
	holds := "nothing whole"
	if x != nil && x.v != nil {
		holds = fmt.Sprintf("%q", x.v.Name)
	}
	return fmt.Errorf("%q is read at %s+%d, which holds %s", r.Value.Name, r.Space, r.Offset, holds)
}

// holds reports whether a range has the content of a value, whole.
func (c *checker) holds(r *schedule.Ref, v *graph.Value) bool {
	if r.Bytes == 0 {
		return true
	}
	x := c.spaces[r.Space].exact(r.Offset, r.Bytes)
	return x != nil && c.shows(x, v)
}

// shows reports whether a value is what a cell is tagged with, or a view of that.
func (c *checker) shows(x *cell, v *graph.Value) bool { return x.v == v || x.v == c.owner(v) }

// write tags a range with a value, which is no view, or with work space.
func (c *checker) write(r *schedule.Ref, v *graph.Value) {
	if r.Space == schedule.Arena {
		c.height = max(c.height, r.Offset+r.Bytes)
	}
	if r.Bytes == 0 {
		return
	}
	spent := c.spaces[r.Space].set(cell{r.Offset, r.Offset + r.Bytes, v, c.now, c.now})
	if r.Space == schedule.Arena {
		c.used(spent)
	}
}

// used counts cells of the arena, each from the launch that writes it to the last that reads it.
func (c *checker) used(cells []cell) {
	for _, x := range cells {
		c.change[x.first] += x.to - x.from
		c.change[x.last+1] -= x.to - x.from
		if c.lives != nil && x.last >= x.first {
			*c.lives = append(*c.lives, schedule.Life{First: x.first, Last: x.last + 1, Offset: x.from, Bytes: x.to - x.from})
		}
	}
}

// peak is the most bytes of the arena that are in use at one launch.
func (c *checker) peak() (peak int64) {
	for _, cells := range c.spaces[schedule.Arena].runs {
		c.used(cells)
	}
	var now int64
	for _, d := range c.change {
		now += d
		peak = max(peak, now)
	}
	return peak
}
