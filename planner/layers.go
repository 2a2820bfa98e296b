package planner

import (
	"cmp"
	"math"
	"slices"

	"memopt/internal/graph"
)

// layers is the forward pass as equal layers: the steps of the plain order at which they begin, and where the last
// ends. They are found by the longest run in which each operator is that of a period before, and begin where the fewest
// bytes cross.
type layers struct {
	begin []int
	end   int
	last  []int   // by value of the step: the last forward step that reads it
	cross []int64 // by forward step: bytes that forward steps from here on read of what is before
}

// fewest is how many layers there must be to speak of layers.
const fewest = 2

func (m *model) layers() (l layers, ok bool) {
	order := m.nodes[:m.p.Border]
	label := make([]*graph.Op, len(order))
	for i, n := range order {
		label[i] = m.g.Nodes[n].Op
	}
	period, from, run := 0, 0, 0
	for _, q := range periods(label) {
		if at, n := longestRun(label, q); n+q > run+period && n >= (fewest-1)*q && !(period > 0 && q%period == 0) {
			period, from, run = q, at, n
		}
	}
	if period == 0 {
		return l, false
	}
	m.crossing(&l)
	count := (run + period) / period
	best, shift := int64(math.MaxInt64), 0
	for o := range period {
		if at := from + o + (count/2)*period; at < from+run+period && l.cross[at] < best {
			best, shift = l.cross[at], o
		}
	}
	// A layer counts if half of it is in the run: the first reads other things than the ones behind it, and the last is
	// read by others.
	first := from + shift
	if 2*shift >= period && first >= period {
		first -= period
	}
	for at := first; at+period/2 < from+run+period; at += period {
		l.begin = append(l.begin, at)
	}
	if len(l.begin) > 0 {
		l.end = min(l.begin[len(l.begin)-1]+period, len(order))
	}
	return l, len(l.begin) >= fewest
}

// periods lists the distances at which operators come back, most often first.
func periods(label []*graph.Op) []int {
	last, votes := map[*graph.Op]int{}, map[int]int{}
	gaps := map[*graph.Op][]int{}
	for i, op := range label {
		if j, seen := last[op]; seen {
			gaps[op] = append(gaps[op], i-j)
		}
		last[op] = i
	}
	for _, g := range gaps {
		// An operator that is several times in a layer comes back after several gaps together.
		for k := 1; k <= 16 && k <= len(g); k++ {
			sum := 0
			for i, d := range g {
				if sum += d; i >= k {
					sum -= g[i-k]
				}
				if i >= k-1 {
					votes[sum]++
				}
			}
		}
	}
	all := make([]int, 0, len(votes))
	for q := range votes {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a, b)) })
	return all[:min(len(all), 32)]
}

// longestRun is the longest stretch whose labels come back a period later.
func longestRun(label []*graph.Op, period int) (from, length int) {
	begin := 0
	for i := 0; i+period < len(label); i++ {
		if label[i] != label[i+period] {
			begin = i + 1
			continue
		}
		if n := i + 1 - begin; n > length {
			from, length = begin, n
		}
	}
	return from, length
}

// crossing finds what is made before each forward step and read by it or later ones of the forward pass.
func (m *model) crossing(l *layers) {
	n := m.p.Border
	l.last, l.cross = make([]int, len(m.owners)), make([]int64, n+2)
	for op := range n {
		for _, v := range m.p.Inputs.Of(op) {
			l.last[v] = int(op)
		}
	}
	for v, op := range m.maker {
		if op < n && l.last[v] > int(op) {
			l.cross[op+1] += m.p.Bytes[v]
			l.cross[l.last[v]+1] -= m.p.Bytes[v]
		}
	}
	sumUp(l.cross)
}

// checkpoints is the nodes that run again if only what crosses the beginning of every few layers is kept: what
// frameworks do that wrap layers.
func (m *model) checkpoints(l layers, every int) []bool {
	again := make([]bool, len(m.g.Nodes))
	for k, from := range l.begin {
		if k%every != 0 {
			continue
		}
		to := l.end
		if k+every < len(l.begin) {
			to = l.begin[k+every]
		}
		for i := from; i < to; i++ {
			crosses := slices.ContainsFunc(m.p.Outputs.Of(int32(i)), func(v int32) bool { return l.last[v] >= to })
			again[m.nodes[i]] = m.p.Again[i] && !crosses
		}
	}
	return again
}

// wrapped is the nodes that run again if checkpoints stand around layers.
type wrapped struct {
	name  string
	again []bool
}

// wrappings is what frameworks do that wrap layers, or every few of them; nothing for a forward pass that does not
// repeat.
func (m *model) wrappings() []wrapped {
	l, ok := m.layers()
	if !ok {
		return nil
	}
	few := int(math.Ceil(math.Sqrt(float64(len(l.begin)))))
	return []wrapped{{"each layer checkpointed", m.checkpoints(l, 1)}, {"√n checkpoints", m.checkpoints(l, few)}}
}

// Checkpointing is a way to save memory by layers: the nodes that run again.
type Checkpointing struct {
	Name  string
	Again []string
}

// Checkpoints is what frameworks do that wrap layers.
func Checkpoints(g *graph.Graph, r Request) (all []Checkpointing, err error) {
	m, err := newModel(g, r)
	if err != nil {
		return nil, err
	}
	for _, w := range m.wrappings() {
		c := Checkpointing{Name: w.name}
		for i, on := range w.again {
			if on {
				c.Again = append(c.Again, g.Nodes[i].Name)
			}
		}
		all = append(all, c)
	}
	return all, nil
}
