package recompute

// network is a flow network in flat arrays, with whole capacities; edge e and
// its reverse e^1 stand together. Dinic's algorithm.
type network struct {
	head     []int32
	next, to []int32
	cap      []int64 // what an edge still carries
	level    []int32
	cursor   []int32
	queue    []int32
	path     []int32
	seen     []bool
}

const source, sink = 0, 1

// endless is more than any sum of real capacities.
const endless = int64(1) << 60

func (n *network) reset(vertices int) {
	*n = network{head: make([]int32, vertices), level: make([]int32, vertices), cursor: make([]int32, vertices), seen: make([]bool, vertices)}
	for i := range n.head {
		n.head[i] = -1
	}
}

func (n *network) edge(from, to int32, capacity int64) int32 {
	e := int32(len(n.to))
	n.to = append(n.to, to, from)
	n.cap = append(n.cap, capacity, 0)
	n.next = append(n.next, n.head[from], n.head[to])
	n.head[from], n.head[to] = e, e+1
	return e
}

// flow adds what more can flow to what flows.
func (n *network) flow() {
	for n.layers() {
		copy(n.cursor, n.head)
		n.block()
	}
}

// layers numbers the vertices by their distance from the source.
func (n *network) layers() bool {
	for i := range n.level {
		n.level[i] = -1
	}
	n.level[source] = 0
	n.queue = append(n.queue[:0], source)
	for i := 0; i < len(n.queue); i++ {
		v := n.queue[i]
		for e := n.head[v]; e >= 0; e = n.next[e] {
			if w := n.to[e]; n.cap[e] > 0 && n.level[w] < 0 {
				n.level[w] = n.level[v] + 1
				if w == sink {
					return true
				}
				n.queue = append(n.queue, w)
			}
		}
	}
	return false
}

// block sends flow along shortest paths until none is left.
func (n *network) block() {
	n.path = n.path[:0]
	v := int32(source)
	for {
		if v == sink {
			least := endless
			for _, e := range n.path {
				least = min(least, n.cap[e])
			}
			cut := len(n.path)
			for i := len(n.path) - 1; i >= 0; i-- {
				e := n.path[i]
				n.cap[e] -= least
				n.cap[e^1] += least
				if n.cap[e] == 0 {
					cut = i
				}
			}
			v = n.to[n.path[cut]^1]
			n.path = n.path[:cut]
			continue
		}
		e := n.cursor[v]
		for ; e >= 0; e = n.next[e] {
			if n.cap[e] > 0 && n.level[n.to[e]] == n.level[v]+1 {
				break
			}
		}
		n.cursor[v] = e
		if e >= 0 {
			n.path = append(n.path, e)
			v = n.to[e]
			continue
		}
		if len(n.path) == 0 {
			return
		}
		back := n.path[len(n.path)-1]
		n.path = n.path[:len(n.path)-1]
		v = n.to[back^1]
		n.cursor[v] = n.next[n.cursor[v]]
	}
}

// reach marks the source's side of the cut.
func (n *network) reach() []bool {
	clear(n.seen)
	n.seen[source] = true
	n.queue = append(n.queue[:0], source)
	for i := 0; i < len(n.queue); i++ {
		for e := n.head[n.queue[i]]; e >= 0; e = n.next[e] {
			if w := n.to[e]; n.cap[e] > 0 && !n.seen[w] {
				n.seen[w] = true
				n.queue = append(n.queue, w)
			}
		}
	}
	return n.seen
}
