package planner

import "math"

// A cut is the question what to have at one step of the plain order: of the
// forward values that are read after it, some are kept, and the others are
// made again from what is there. Keeping costs bytes, making again costs the
// closure of launches back to what is kept. With a price λ on bytes this is
// project selection, one minimum cut:
//
//	source ─∞→ value         for each value that is read after the step
//	value ─λ·bytes→ producer pay to keep it …
//	producer ─cost→ sink     … or to run its producer,
//	producer ─∞→ inputs      which needs its inputs in turn
//
// Any plan in this order has some set at this step, so cost + λ·(bytes − room)
// bounds its extra cost from below, for every λ ≥ 0; the best λ is found by
// following the lower envelope of the lines that the cuts are. The sets met on
// the way are the best plans to start from that are known.
type cut struct {
	m      *model
	values []int32 // forward owners that can be in question
	index  []int32 // by owner: place in values, −1
	net    network
	keep   []int32 // by place: the edge whose capacity is λ·bytes
	ops    []int32 // nodes that have a vertex
	vertex []int32 // by node: its vertex, −1
	fixed  int64   // bytes at the step whatever is chosen
	free   []bool  // by owner: there anyway, because the step itself reads it
	needed []bool  // by owner: read after the step
}

// span is where the plain order makes each owner and reads it last.
type span struct{ made, last []int32 }

func (m *model) spans(plain *timeline) span {
	s := span{make([]int32, len(m.g.Values)), make([]int32, len(m.g.Values))}
	for i := range s.made {
		s.made[i] = -1
	}
	for i, st := range plain.steps {
		for _, o := range m.inputs[st.Node] {
			s.last[o] = int32(i)
		}
		for _, o := range m.outputs[st.Node] {
			s.made[o], s.last[o] = int32(i), int32(i)
		}
	}
	for o, is := range m.lasting {
		if is {
			s.last[o] = int32(len(plain.steps))
		}
	}
	return s
}

// newCut builds the network for a step.
func (m *model) newCut(plain *timeline, s span, at int) *cut {
	c := &cut{m: m, index: make([]int32, len(m.g.Values)), vertex: make([]int32, len(m.g.Nodes)),
		free: make([]bool, len(m.g.Values)), needed: make([]bool, len(m.g.Values))}
	node := m.g.Nodes[plain.steps[at].Node]
	for _, o := range m.inputs[node.ID] {
		c.free[o] = true
		c.fixed += m.bytes[o]
	}
	for k, o := range m.outputs[node.ID] {
		c.free[o] = true
		if k > 0 || len(node.Op.InPlace) == 0 {
			c.fixed += m.bytes[o]
		}
	}
	c.fixed += m.scratch[node.ID]
	for i := range c.index {
		c.index[i] = -1
	}
	for i := range c.vertex {
		c.vertex[i] = -1
	}
	now := int32(at)
	for o := range m.g.Values {
		if s.made[o] < 0 || s.made[o] >= now || c.free[o] {
			continue
		}
		def := m.g.Values[o].Def
		if s.last[o] > now && (!m.mayRunAgain(def) || m.lasting[o]) {
			c.fixed += m.bytes[o]
			c.free[o] = true
			continue
		}
		if m.mayRunAgain(def) {
			c.index[o] = int32(len(c.values))
			c.values = append(c.values, int32(o))
			c.needed[o] = s.last[o] > now
		}
	}
	c.connect(s)
	return c
}

const source, sink = 0, 1

func (c *cut) connect(s span) {
	m := c.m
	n := int32(2 + len(c.values))
	for _, o := range c.values {
		op := m.g.Values[o].Def.ID
		if c.vertex[op] < 0 {
			c.vertex[op] = n
			c.ops = append(c.ops, op)
			n++
		}
	}
	c.net.reset(int(n))
	for i, o := range c.values {
		v := int32(2 + i)
		if c.needed[o] {
			c.net.edge(source, v, math.Inf(1))
		}
		c.keep = append(c.keep, c.net.edge(v, c.vertex[m.g.Values[o].Def.ID], 0))
	}
	for _, op := range c.ops {
		c.net.edge(c.vertex[op], sink, m.cost[op])
		for _, in := range m.inputs[op] {
			switch {
			case c.index[in] >= 0:
				c.net.edge(c.vertex[op], 2+c.index[in], math.Inf(1))
			case !c.free[in]:
				// Neither there nor repeatable: the op cannot run again.
				c.net.edge(c.vertex[op], sink, math.Inf(1))
			}
		}
	}
}

// line is what one cut says: cost and bytes of a set, and what runs again.
type line struct {
	cost, bytes float64
	again       []bool // by node
}

// at solves the cut for a price.
func (c *cut) at(price float64) line {
	c.net.restore()
	for i, e := range c.keep {
		c.net.cap[e] = price * float64(c.m.bytes[c.values[i]])
	}
	c.net.flow(c.m.total * 1e-12)
	reach := c.net.reach()
	l := line{again: make([]bool, len(c.m.g.Nodes))}
	for i, o := range c.values {
		if reach[2+i] && !reach[c.vertex[c.m.g.Values[o].Def.ID]] {
			l.bytes += float64(c.m.bytes[o])
		}
	}
	for _, op := range c.ops {
		if reach[c.vertex[op]] {
			l.again[op] = true
			l.cost += c.m.cost[op]
		}
	}
	return l
}

// solve finds the best price for a limit: the bound on the extra cost, and the
// sets on either side of it, which are plans to start from. ok is false if no
// set fits, so that no plan does.
func (c *cut) solve(limit int64) (bound float64, sets []line, ok bool) {
	room := float64(limit - c.fixed)
	high := line{again: make([]bool, len(c.m.g.Nodes))} // everything kept
	for _, o := range c.values {
		if c.needed[o] {
			high.bytes += float64(c.m.bytes[o])
		}
	}
	if high.bytes <= room {
		return 0, nil, true
	}
	low := c.at(c.m.total + 1) // as little kept as can be: a byte costs more than the step
	if low.bytes > room {
		return math.Inf(1), nil, false
	}
	for range 40 {
		price := (low.cost - high.cost) / (high.bytes - low.bytes)
		l := c.at(price)
		value, envelope := l.cost+price*l.bytes, low.cost+price*low.bytes
		bound = max(bound, value-price*room)
		if value >= envelope*(1-1e-9) {
			break
		}
		if l.bytes > room {
			high = l
		} else {
			low = l
		}
	}
	return bound, []line{low, high}, true
}

// network is a flow network in flat arrays; edge e and its reverse e^1 stand
// together. Dinic's algorithm.
type network struct {
	head      []int32
	next, to  []int32
	cap, full []float64
	level     []int32
	cursor    []int32
	queue     []int32
}

func (n *network) reset(vertices int) {
	n.head = make([]int32, vertices)
	for i := range n.head {
		n.head[i] = -1
	}
	n.level, n.cursor = make([]int32, vertices), make([]int32, vertices)
}

func (n *network) edge(from, to int32, capacity float64) int32 {
	e := int32(len(n.to))
	n.to = append(n.to, to, from)
	n.full = append(n.full, capacity, 0)
	n.next = append(n.next, n.head[from], n.head[to])
	n.head[from], n.head[to] = e, e+1
	return e
}

// restore brings every capacity back to what edge said.
func (n *network) restore() { n.cap = append(n.cap[:0], n.full...) }

// flow sends what it can; rests below eps count as nothing.
func (n *network) flow(eps float64) {
	for n.layers(eps) {
		copy(n.cursor, n.head)
		for n.push(source, math.Inf(1), eps) > eps {
		}
	}
	// reach asks for edges that still carry something: drop the dust.
	for e := range n.cap {
		if n.cap[e] <= eps {
			n.cap[e] = 0
		}
	}
}

func (n *network) layers(eps float64) bool {
	for i := range n.level {
		n.level[i] = -1
	}
	n.level[source] = 0
	n.queue = append(n.queue[:0], source)
	for i := 0; i < len(n.queue); i++ {
		v := n.queue[i]
		for e := n.head[v]; e >= 0; e = n.next[e] {
			if n.cap[e] > eps && n.level[n.to[e]] < 0 {
				n.level[n.to[e]] = n.level[v] + 1
				n.queue = append(n.queue, n.to[e])
			}
		}
	}
	return n.level[sink] >= 0
}

func (n *network) push(v int32, want, eps float64) float64 {
	if v == sink {
		return want
	}
	for ; n.cursor[v] >= 0; n.cursor[v] = n.next[n.cursor[v]] {
		e := n.cursor[v]
		if n.cap[e] <= eps || n.level[n.to[e]] != n.level[v]+1 {
			continue
		}
		if got := n.push(n.to[e], min(want, n.cap[e]), eps); got > eps {
			n.cap[e] -= got
			n.cap[e^1] += got
			return got
		}
	}
	return 0
}

// reach is the source's side of the cut.
func (n *network) reach() []bool {
	seen := make([]bool, len(n.head))
	seen[source] = true
	n.queue = append(n.queue[:0], source)
	for i := 0; i < len(n.queue); i++ {
		for e := n.head[n.queue[i]]; e >= 0; e = n.next[e] {
			if n.cap[e] > 0 && !seen[n.to[e]] {
				seen[n.to[e]] = true
				n.queue = append(n.queue, n.to[e])
			}
		}
	}
	return seen
}
