package planner

import (
	"cmp"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// layers is the forward pass as equal layers: the steps of the plain order at which they begin, and where the last
// ends. They are found by the longest run in which each operator is that of a period before, and begin where the fewest
// bytes cross.
type layers struct {
	begin []int
	end   int
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
	l.cross = m.crossing(order)
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

// crossing is, by forward step, the bytes that are made before it and read by it or later ones of the forward pass.
func (m *model) crossing(order []int32) []int64 {
	made, last := map[int32]int{}, map[int32]int{}
	for i := range order {
		for _, v := range m.p.Inputs.Of(int32(i)) {
			last[v] = i
		}
		for _, v := range m.p.Outputs.Of(int32(i)) {
			made[v] = i
		}
	}
	cross := make([]int64, len(order)+2)
	for v, at := range made {
		if last[v] > at {
			cross[at+1] += m.p.Bytes[v]
			cross[last[v]+1] -= m.p.Bytes[v]
		}
	}
	for i := 1; i < len(cross); i++ {
		cross[i] += cross[i-1]
	}
	return cross
}

// checkpoints is the nodes that run again if only what crosses the beginning of every few layers is kept: what
// frameworks do that wrap layers.
func (m *model) checkpoints(l layers, every int) []bool {
	again := make([]bool, len(m.g.Nodes))
	order := m.nodes[:m.p.Border]
	last := map[int32]int{}
	for i := range order {
		for _, v := range m.p.Inputs.Of(int32(i)) {
			last[v] = i
		}
	}
	for k, from := range l.begin {
		if k%every != 0 {
			continue
		}
		to := l.end
		if k+every < len(l.begin) {
			to = l.begin[k+every]
		}
		for i := from; i < to; i++ {
			n := m.g.Nodes[order[i]]
			crosses := slices.ContainsFunc(m.p.Outputs.Of(int32(i)), func(v int32) bool { return last[v] >= to })
			again[n.ID] = m.mayRunAgain(n) && !crosses
		}
	}
	return again
}

// Checkpointing is a way to save memory by layers: the nodes that run again.
type Checkpointing struct {
	Name  string
	Again []string
}

// Checkpoints is what frameworks do that wrap layers, or every few of them; nothing for a forward pass that does not
// repeat.
func Checkpoints(g *graph.Graph, r Request) ([]Checkpointing, error) {
	m, err := newModel(g, r)
	if err != nil {
		return nil, err
	}
	l, ok := m.layers()
	if !ok {
		return nil, nil
	}
	var all []Checkpointing
	for _, w := range l.wrappings() {
		c := Checkpointing{Name: w.name}
		for i, on := range m.checkpoints(l, w.every) {
			if on {
				c.Again = append(c.Again, g.Nodes[i].Name)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// wrapping is how many layers a checkpoint stands around.
type wrapping struct {
	name  string
	every int
}

func (l layers) wrappings() []wrapping {
	return []wrapping{
		{"each layer checkpointed", 1},
		{"√n checkpoints", int(math.Ceil(math.Sqrt(float64(len(l.begin)))))},
	}
}
