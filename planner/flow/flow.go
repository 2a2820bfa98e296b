// Package flow finds the largest flow through a network, and the smallest of its minimum cuts.
package flow

import (
	"context"

	"memopt/internal/stop"
)

// Network is a flow network with whole capacities, in flat arrays: edge e and its reverse e^1 stand together. Its flow
// is found by Dinic's algorithm.
type Network struct {
	Cap    []int64 // by edge: residual capacity. More of it, or what was copied before, may be put there between flows
	to     []int32
	first  []int32 // by vertex: its first arc; one more at the end
	arcs   []arc   // by vertex
	level  []int32
	cursor []int32
	queue  []int32
	path   []int32
	seen   []bool
	ctx    context.Context // polled for each length of the paths
}

// arc is an edge at one of its vertices.
type arc struct{ to, edge int32 }

// Source and Sink are the vertices that flow goes from and to.
const Source, Sink = 0, 1

// Endless is above any sum of real capacities.
const Endless = int64(1) << 62

// Reset empties the network and makes room for vertices and edges.
func (n *Network) Reset(ctx context.Context, vertices, edges int) {
	*n = Network{ctx: ctx, to: make([]int32, 0, 2*edges), Cap: make([]int64, 0, 2*edges), first: make([]int32, vertices+1), level: make([]int32, vertices), cursor: make([]int32, vertices), seen: make([]bool, vertices)}
}

// Edge adds an edge, and gives its number.
func (n *Network) Edge(from, to int32, capacity int64) int32 {
	e := int32(len(n.to))
	n.to = append(n.to, to, from)
	n.Cap = append(n.Cap, capacity, 0)
	return e
}

// seal lists the arcs of each vertex, the last edge first.
func (n *Network) seal() {
	clear(n.first)
	for e := range n.to {
		n.first[n.to[e^1]+1]++
	}
	for v := range n.level {
		n.first[v+1] += n.first[v]
		n.cursor[v] = n.first[v]
	}
	n.arcs = make([]arc, len(n.to))
	for e := len(n.to) - 1; e >= 0; e-- {
		from := n.to[e^1]
		n.arcs[n.cursor[from]] = arc{n.to[e], int32(e)}
		n.cursor[from]++
	}
}

// Flow augments the flow until it is the largest.
func (n *Network) Flow() {
	if len(n.arcs) != len(n.to) {
		n.seal()
	}
	for n.layers() {
		stop.Poll(n.ctx)
		copy(n.cursor, n.first)
		n.block()
	}
}

// layers numbers the vertices by their distance from the source, and reports whether it reached the sink.
func (n *Network) layers() bool {
	for i := range n.level {
		n.level[i] = -1
	}
	n.level[Source] = 0
	n.queue = append(n.queue[:0], Source)
	for i := 0; i < len(n.queue); i++ {
		v := n.queue[i]
		for _, a := range n.arcs[n.first[v]:n.first[v+1]] {
			if n.level[a.to] < 0 && n.Cap[a.edge] > 0 {
				n.level[a.to] = n.level[v] + 1
				if a.to == Sink {
					return true
				}
				n.queue = append(n.queue, a.to)
			}
		}
	}
	return false
}

// block augments along shortest paths until there are none.
func (n *Network) block() {
	n.path = n.path[:0]
	v := int32(Source)
	for {
		if v == Sink {
			least := Endless
			for _, e := range n.path {
				least = min(least, n.Cap[e])
			}
			cut := len(n.path)
			for i := len(n.path) - 1; i >= 0; i-- {
				e := n.path[i]
				n.Cap[e] -= least
				n.Cap[e^1] += least
				if n.Cap[e] == 0 {
					cut = i
				}
			}
			v = n.to[n.path[cut]^1]
			n.path = n.path[:cut]
			continue
		}
		i, end, next := n.cursor[v], n.first[v+1], n.level[v]+1
		for ; i < end; i++ {
			if a := n.arcs[i]; n.level[a.to] == next && n.Cap[a.edge] > 0 {
				break
			}
		}
		n.cursor[v] = i
		if i < end {
			a := n.arcs[i]
			n.path = append(n.path, a.edge)
			v = a.to
			continue
		}
		if len(n.path) == 0 {
			return
		}
		back := n.path[len(n.path)-1]
		n.path = n.path[:len(n.path)-1]
		v = n.to[back^1]
		n.cursor[v]++
	}
}

// Reach marks the source's side of the minimum cut: what the last layers numbered.
func (n *Network) Reach() []bool {
	for v, level := range n.level {
		n.seen[v] = level >= 0
	}
	return n.seen
}

// Edges is how many edges there are, with their reverses.
func (n *Network) Edges() int { return len(n.to) }
