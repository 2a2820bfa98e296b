// Package chains makes one launch of pointwise launches of a schedule that share what they read or make.
package chains

import (
	"fmt"
	"slices"

	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Chains is what became of a schedule's pointwise launches: those that go over the same elements, and read what others
// of them read or make, are one launch, which loads an element of each operand once and stores what another launch
// reads.
//
// This is done to a schedule, behind all decisions, since it has to do with none of them. Every value keeps the place
// that the plan has for it, whether it is still stored or not, so peak and arena are the plan's; a node can run alone
// at one place and in a chain at another, so nothing is kept or run again for its sake; and results keep their bits.
type Chains struct {
	Rows  []ChainRow // alike together, in the order of the first
	Saved int64      // bytes that are not read and written
}

// ChainRow is chains of the same operators on the same shape.
type ChainRow struct {
	Operators []string
	Shape     []int
	Count     int
	Stored    int   // values of each that are stored; others are read nowhere else
	Saved     int64 // bytes, by all
}

// Launches is how many launches became how many.
func (c *Chains) Launches() (before, after int) {
	for _, r := range c.Rows {
		before, after = before+r.Count*len(r.Operators), after+r.Count
	}
	return before, after
}

// chainReach is how many launches ahead another part of a chain is looked for.
const chainReach = 64

// Of is the launches of a schedule with chains in the place of their first parts. owner is the value that a value is a view
// of, or itself, by its number; lasts reports whether a value is read after the step, or held.
func Of(g *graph.Graph, launches []schedule.Launch, owner func(*graph.Value) int32, lasts func(*graph.Value) bool) ([]schedule.Launch, *Chains, error) {
	c := &chainer{g: g, ownerOf: owner, stays: lasts, launches: launches, readers: make([][]int32, len(launches)), chain: make([]*chain, len(launches)), report: &Chains{}}
	maker := slices.Repeat([]int32{-1}, len(g.Values)) // by owner
	for i, l := range c.launches {
		for _, r := range l.In {
			if r.Value != nil && maker[c.owner(r)] >= 0 {
				k := maker[c.owner(r)]
				c.readers[k] = append(c.readers[k], int32(i))
			}
		}
		for _, r := range l.Out {
			if r.Value != nil && l.Node != nil {
				maker[c.owner(r)] = int32(i)
			}
		}
	}
	chained, err := c.all()
	return chained, c.report, err
}

// chainer puts launches of a schedule into chains.
type chainer struct {
	g        *graph.Graph
	ownerOf  func(*graph.Value) int32
	stays    func(*graph.Value) bool
	launches []schedule.Launch
	readers  [][]int32 // by launch that makes one value: who reads it
	chain    []*chain  // by launch: the one that it is in, or nil
	report   *Chains
}

func (c *chainer) owner(r schedule.Ref) int32 { return c.ownerOf(r.Value) }

// all is the launches with chains in the place of their first parts.
func (c *chainer) all() (out []schedule.Launch, err error) {
	for i := range c.launches {
		l := c.launches[i]
		switch {
		case c.chain[i] != nil:
			continue
		case len(c.readers[i]) > 0 && !c.read(i) && !c.lasts(l.Out[0]):
			c.report.Saved += moved(&l)
			continue
		case c.fits(i):
			if g := c.from(i); len(g.parts) > 1 {
				if l, err = g.launch(); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// fits is whether a launch can be a part: one of float32 that a launch reads, and no update, which micro-batches leave
// out.
func (c *chainer) fits(i int) bool {
	l := &c.launches[i]
	n := l.Node
	if n == nil || !n.Op.Pointwise || n.Phase == graph.Updating || l.Out[0].Bytes == 0 || !c.lasts(l.Out[0]) && !c.read(i) {
		return false
	}
	ports, _ := n.Op.Ports()
	for _, r := range l.In {
		// Any number of inputs are taken whole: see the chain's operator.
		if r.Value == nil || r.Value.Type != graph.Float32 || ports[0].Variadic && !slices.Equal(r.Shape, l.Out[0].Shape) {
			return false
		}
	}
	return l.Out[0].Value != nil && l.Out[0].Value.Type == graph.Float32
}

// read reports whether a launch reads what launch i makes, other than in a chain that makes the same, as a node may run
// more than once.
func (c *chainer) read(i int, but ...int) bool {
	v := c.launches[i].Out[0].Value
	return slices.ContainsFunc(c.readers[i], func(k int32) bool {
		by := c.chain[k]
		return !slices.Contains(but, int(k)) && (by == nil || !has(by.makes, v))
	})
}

// lasts is whether a value is read after the step, or held.
func (c *chainer) lasts(r schedule.Ref) bool { return c.stays(r.Value) }

// from is the chain that begins with launch i. What joins it runs there, before launches that stood in between and do
// not.
func (c *chainer) from(i int) *chain {
	g := c.of([]int{i}, nil)
	for j := i + 1; j < min(len(c.launches), i+chainReach); j++ {
		if n := c.launches[j].Node; n == nil || n.Op.Border {
			break // the passes can run one by one
		}
		if c.chain[j] != nil {
			continue // it runs before i
		}
		if longer := g.with(j); longer != nil {
			g = longer
		} else {
			g.skipped = append(g.skipped, j)
		}
	}
	slices.Sort(g.parts) // as they are, they could run one by one too
	g = c.of(g.parts, g.skipped)
	for _, k := range g.parts {
		c.chain[k] = g
	}
	return g
}

// chain is launches that are one, and those that stay behind.
type chain struct {
	*chainer
	parts, skipped []int
	reads, makes   []schedule.Ref // of the parts: what they read of others, and what they make
}

func has(refs []schedule.Ref, v *graph.Value) bool {
	return slices.ContainsFunc(refs, func(r schedule.Ref) bool { return r.Value == v })
}

// of is the chain of some parts.
func (c *chainer) of(parts, skipped []int) *chain {
	g := &chain{chainer: c, parts: parts, skipped: skipped}
	for _, k := range parts {
		for _, r := range c.launches[k].In {
			if !has(g.makes, r.Value) && !has(g.reads, r.Value) {
				g.reads = append(g.reads, r)
			}
		}
		g.makes = append(g.makes, c.launches[k].Out[0])
	}
	return g
}

// with is the chain with launch j, if that reads what the chain does or makes, and can run there; or nil. What else
// makes an operand of it comes along.
func (g *chain) with(j int) *chain {
	l := &g.launches[j]
	if !g.fits(j) || !slices.ContainsFunc(l.In, func(r schedule.Ref) bool {
		return has(g.makes, r.Value) || r.Bytes == l.Out[0].Bytes && has(g.reads, r.Value)
	}) {
		return nil
	}
	longer, behind := g.of(g.parts, nil), []int(nil)
	for _, k := range g.skipped {
		if !g.fits(k) || !has(l.In, g.launches[k].Out[0].Value) {
			behind = append(behind, k)
		} else if longer = longer.and(k, behind); longer == nil {
			return nil
		}
	}
	if longer = longer.and(j, behind); longer != nil {
		longer.skipped = behind
	}
	return longer
}

// and is the chain with one more part, if that can run with the others, before launches that it stood behind; or nil.
func (g *chain) and(k int, behind []int) *chain {
	l := &g.launches[k]
	out := l.Out[0]
	if !slices.Equal(out.Shape, g.makes[0].Shape) || has(g.makes, out.Value) {
		return nil
	}
	var reads []schedule.Ref
	for _, r := range l.In {
		if has(g.makes, r.Value) {
			continue
		}
		if slices.ContainsFunc(g.makes, func(x schedule.Ref) bool { return g.owner(x) == g.owner(r) }) {
			return nil // it is seen through a view
		}
		reads = append(reads, r)
	}
	meets := func(refs []schedule.Ref, r schedule.Ref) bool {
		return slices.ContainsFunc(refs, func(x schedule.Ref) bool { return x.Overlaps(&r) })
	}
	for _, b := range behind {
		x := &g.launches[b]
		writes := append(slices.Clip(x.Out), x.Scratch)
		if meets(x.In, out) || meets(writes, out) || has(x.Out, out.Value) || slices.ContainsFunc(reads, func(r schedule.Ref) bool { return meets(writes, r) }) {
			return nil
		}
	}
	longer := g.of(append(slices.Clip(g.parts), k), nil)
	// An element may be stored where one of the same place is read, since all are loaded first.
	for _, w := range longer.makes {
		for _, r := range longer.reads {
			if w.Overlaps(&r) && (w.Offset != r.Offset || w.Bytes != r.Bytes) || w.Value == r.Value {
				return nil
			}
		}
	}
	if len(longer.reads)+len(longer.stored()) > graph.ChainOperands {
		return nil
	}
	return longer
}

// stored is what parts make that is read elsewhere.
func (g *chain) stored() (refs []schedule.Ref) {
	for k, i := range g.parts {
		if g.lasts(g.makes[k]) || g.read(i, g.parts...) {
			refs = append(refs, g.makes[k])
		}
	}
	return refs
}

// launch is the one that stands for all.
func (g *chain) launch() (schedule.Launch, error) {
	l := schedule.Launch{In: g.reads, Out: g.stored(), Again: true}
	var nodes []*graph.Node
	row := ChainRow{Shape: g.makes[0].Shape, Count: 1, Stored: len(l.Out)}
	for _, i := range g.parts {
		part := g.launches[i]
		l.Parts, l.Again = append(l.Parts, part), l.Again && part.Again
		nodes, row.Operators = append(nodes, part.Node), append(row.Operators, part.Node.Op.FullName())
		row.Saved += moved(&part)
	}
	shapes := map[*graph.Value][]int{}
	for _, r := range l.In {
		shapes[r.Value] = r.Shape
	}
	values := func(refs []schedule.Ref) (vs []*graph.Value) {
		for _, r := range refs {
			vs = append(vs, r.Value)
		}
		return vs
	}
	var err error
	l.Node, err = graph.Chain(g.g.Lib, nodes, values(l.In), values(l.Out), func(v *graph.Value) []int { return shapes[v] })
	row.Saved -= moved(&l)
	g.report.add(row)
	return l, err
}

// moved is the bytes that a launch reads and writes.
func moved(l *schedule.Launch) (bytes int64) {
	for _, refs := range [...][]schedule.Ref{l.In, l.Out} {
		for _, r := range refs {
			bytes += r.Bytes
		}
	}
	return bytes
}

func (c *Chains) add(row ChainRow) {
	c.Saved += row.Saved
	same := func(r ChainRow) bool {
		return slices.Equal(r.Operators, row.Operators) && slices.Equal(r.Shape, row.Shape) && r.Stored == row.Stored
	}
	if i := slices.IndexFunc(c.Rows, same); i >= 0 {
		c.Rows[i].Count++
		c.Rows[i].Saved += row.Saved
		return
	}
	c.Rows = append(c.Rows, row)
}

// String is the line that a report has.
func (c *Chains) String() string {
	before, after := c.Launches()
	if after == 0 {
		return "no elementwise launches share what they read or make"
	}
	return fmt.Sprintf("%d elementwise launches run as %d, which read and write %s less in a step", before, after, bytesize.Exact(c.Saved))
}
