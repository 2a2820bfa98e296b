package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// border is the operator that ends the forward pass of a trainer's program.
const border = "YieldOp"

// edge leads from the node that computes a value to one that reads it.
type edge struct {
	from, out int
	to, in    int
}

// borderOf is the node that ends the forward pass, −1 if there is none.
func borderOf(o *graph.Outline) (int, error) {
	at := -1
	for i, n := range o.Nodes {
		if n.Op != border {
			continue
		}
		if at >= 0 {
			return -1, fmt.Errorf("nodes %q and %q (%s) both end the forward pass, need one", o.Nodes[at].Name, n.Name, n.Op)
		}
		at = i
	}
	return at, nil
}

// complete returns an error if nodes are missing in an order because they are part of a cycle.
func (w *wiring) complete(order []int) ([]int, error) {
	if len(order) == len(w.o.Nodes) {
		return order, nil
	}
	placed := make([]bool, len(w.o.Nodes))
	for _, i := range order {
		placed[i] = true
	}
	return nil, fmt.Errorf("node %q is part of a cycle", w.o.Nodes[slices.Index(placed, false)].Name)
}

// DefaultOrder is the order in which ONNX Runtime runs a saved program by default: the order of the
// file, with nodes moved behind the nodes that they depend on.
func DefaultOrder(o *graph.Outline) ([]int, error) {
	w, err := wire(o)
	if err != nil {
		return nil, err
	}
	return w.inPlace()
}

func (w *wiring) inPlace() ([]int, error) {
	last := make([]int, len(w.o.Nodes))
	for i := range last {
		last[i] = len(last) - 1 - i
	}
	return w.complete(w.reverse(last, func(a, b int) int { return b - a }))
}

// reverse walks depth first from nodes to their dependencies, beginning with the last node and with
// the last dependency by less, and returns the nodes in postorder: dependencies first. Nodes on a
// cycle are left out.
func (w *wiring) reverse(from []int, less func(a, b int) int) []int {
	type visit struct {
		node  int
		leave bool
	}
	const (
		fresh = iota
		open
		done
	)
	state := make([]uint8, len(w.o.Nodes))
	var stack []visit
	for _, i := range from {
		stack = append(stack, visit{node: i})
	}
	var order []int
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case v.leave:
			if !slices.ContainsFunc(w.into[v.node], func(e edge) bool { return state[e.from] == open }) {
				state[v.node] = done
				order = append(order, v.node)
			}
			continue
		case state[v.node] != fresh:
			continue
		}
		state[v.node] = open
		stack = append(stack, visit{v.node, true})
		var makers []int
		for _, e := range w.into[v.node] {
			makers = append(makers, e.from)
		}
		slices.SortFunc(makers, less)
		for _, m := range slices.Compact(makers) {
			stack = append(stack, visit{node: m})
		}
	}
	return order
}

// MemoryEfficientOrder is the order in which ONNX Runtime runs a program with recomputed
// activations. First the forward nodes, depth first from the results, the longest path first; Shape
// and Size of their outputs right behind them. Then the backward nodes in the order in which they
// become ready, where nodes that depend on the forward pass alone (such as copies) are placed right
// before their first reader. Ties are broken by index in o.Nodes. Without a border it is the
// default order.
func MemoryEfficientOrder(o *graph.Outline) ([]int, error) {
	at, err := borderOf(o)
	if err != nil {
		return nil, err
	}
	w, err := wire(o)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return w.inPlace()
	}
	distance, err := w.distances()
	if err != nil {
		return nil, err
	}
	far := func(a, b int) int { return cmp.Or(cmp.Compare(distance[a], distance[b]), cmp.Compare(a, b)) }
	needed := w.reverse([]int{at}, far)
	forward := make([]bool, len(o.Nodes))
	for _, i := range needed {
		forward[i] = true
	}
	var order []int
	for _, i := range needed[:len(needed)-1] {
		order = append(order, i)
		for _, e := range slices.Backward(w.out[i]) { // each is placed right behind i
			if measures[o.Nodes[e.to].Op] && len(w.into[e.to]) == 1 && !forward[e.to] {
				forward[e.to] = true
				order = append(order, e.to)
			}
		}
	}
	b := &backward{w: w, border: at, order: append(order, at), waits: make([]int, len(o.Nodes)), forward: forward}
	b.run()
	return w.complete(b.order)
}

// measures lists operators that read only the shape of their input.
var measures = map[string]bool{"Shape": true, "Size": true}

// distances is the length of the longest path to each node, in edges.
func (w *wiring) distances() ([]int, error) {
	distance, waits := make([]int, len(w.o.Nodes)), make([]int, len(w.o.Nodes))
	var ready []int
	for i := range w.o.Nodes {
		if waits[i] = len(w.into[i]); waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for k := 0; k < len(ready); k++ {
		for _, e := range w.out[ready[k]] {
			distance[e.to] = max(distance[e.to], distance[e.from]+1)
			if waits[e.to]--; waits[e.to] == 0 {
				ready = append(ready, e.to)
			}
		}
	}
	_, err := w.complete(ready)
	return distance, err
}

// backward orders the nodes behind the border.
type backward struct {
	w       *wiring
	border  int
	forward []bool // including the border
	order   []int
	waits   []int // incoming edges from nodes not placed yet
	groups  []group
	groupOf []int // by node: its group, or −1
}

// group is nodes off the main path that the same results depend on.
type group struct {
	nodes  []int // in order
	placed bool
}

func (b *backward) run() {
	b.groupOf = make([]int, len(b.w.o.Nodes))
	var starts []int
	for i := range b.w.o.Nodes {
		b.groupOf[i] = -1
		if b.forward[i] {
			continue
		}
		for _, e := range b.w.into[i] {
			if !b.forward[e.from] || e.from == b.border {
				b.waits[i]++
			}
		}
		if b.waits[i] == 0 {
			starts = append(starts, i)
		}
	}
	b.split(b.beside(starts))
	for queue := []int{b.border}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if i != b.border {
			b.feed(i, func(x, y edge) int { return cmp.Or(x.from-y.from, x.out-y.out, x.in-y.in) })
			b.order = append(b.order, i)
		}
		for _, e := range b.w.out[i] {
			if b.forward[e.to] {
				continue
			}
			if b.waits[e.to]--; b.waits[e.to] == 0 {
				queue = append(queue, e.to)
			}
		}
	}
	b.rest()
}

// beside finds the nodes that need no gradient: those that depend only on the forward pass. The
// main path does not wait for them.
func (b *backward) beside(starts []int) []int {
	waits := slices.Clone(b.waits)
	region := slices.Clone(starts)
	inside := make([]bool, len(waits))
	for k := 0; k < len(region); k++ {
		inside[region[k]] = true
		for _, e := range b.w.out[region[k]] {
			if waits[e.to]--; waits[e.to] == 0 {
				region = append(region, e.to)
			}
		}
	}
	for _, i := range region {
		for _, e := range b.w.out[i] {
			if !inside[e.to] {
				b.waits[e.to]--
			}
		}
	}
	return region
}

// split divides the region into groups by the results that depend on a node: outputs that the main
// path reads or the program returns.
func (b *backward) split(region []int) {
	inside := make([]bool, len(b.w.o.Nodes))
	for _, i := range region {
		inside[i] = true
	}
	own, results := b.results(region, inside)
	serves := make([][]uint64, len(b.w.o.Nodes)) // by node: set of results; freed when all its dependencies are done
	makers := make([]int, len(b.w.o.Nodes))
	keys := make([][sha256.Size]byte, len(b.w.o.Nodes))
	var spare [][]uint64
	for _, i := range slices.Backward(region) {
		var set []uint64
		if n := len(spare); n > 0 {
			set, spare = spare[n-1], spare[:n-1]
			clear(set)
		} else {
			set = make([]uint64, (results+63)/64)
		}
		for _, k := range own[i] {
			set[k/64] |= 1 << (k % 64)
		}
		for _, e := range b.w.out[i] {
			if !inside[e.to] {
				continue
			}
			for k, bits := range serves[e.to] {
				set[k] |= bits
			}
		}
		for _, e := range b.w.out[i] {
			if inside[e.to] {
				if makers[e.to]--; makers[e.to] == 0 {
					spare, serves[e.to] = append(spare, serves[e.to]), nil
				}
			}
		}
		sum := sha256.New()
		var word [8]byte
		for _, bits := range set {
			binary.LittleEndian.PutUint64(word[:], bits)
			sum.Write(word[:])
		}
		sum.Sum(keys[i][:0])
		for _, e := range b.w.into[i] {
			if inside[e.from] {
				makers[i]++
			}
		}
		if makers[i] > 0 {
			serves[i] = set
		} else {
			spare = append(spare, set)
		}
	}
	byKey := map[[sha256.Size]byte]int{}
	for _, i := range region {
		k, ok := byKey[keys[i]]
		if !ok {
			k = len(b.groups)
			byKey[keys[i]] = k
			b.groups = append(b.groups, group{})
		}
		b.groups[k].nodes = append(b.groups[k].nodes, i)
		b.groupOf[i] = k
	}
}

// results numbers the region's outputs that others read, and lists those of each node.
func (b *backward) results(region []int, inside []bool) (own map[int][]int, n int) {
	returned := map[string]bool{}
	for _, name := range b.w.o.Outputs {
		returned[name] = true
	}
	own = map[int][]int{}
	for _, i := range region {
		names := b.w.o.Nodes[i].Outputs
		needed := make([]bool, len(names))
		for k, name := range names {
			needed[k] = returned[name]
		}
		for _, e := range b.w.out[i] {
			needed[e.out] = needed[e.out] || !inside[e.to]
		}
		for _, is := range needed {
			if is {
				own[i] = append(own[i], n)
				n++
			}
		}
	}
	return own, n
}

// feed places the groups that a node depends on, in the given order of its inputs.
func (b *backward) feed(i int, less func(x, y edge) int) {
	for _, e := range slices.SortedStableFunc(slices.Values(b.w.into[i]), less) {
		if k := b.groupOf[e.from]; k >= 0 {
			b.place(k)
		}
	}
}

func (b *backward) place(k int) {
	if b.groups[k].placed {
		return
	}
	b.groups[k].placed = true
	for _, i := range b.groups[k].nodes {
		b.feed(i, func(x, y edge) int { return x.in - y.in })
	}
	b.order = append(b.order, b.groups[k].nodes...)
}

// rest places the groups that the main path does not read, by the names of their outputs.
func (b *backward) rest() {
	type named struct {
		name  string
		group int
	}
	var left []named
	for k, g := range b.groups {
		if g.placed {
			continue
		}
		for _, i := range g.nodes {
			for _, name := range b.w.o.Nodes[i].Outputs {
				left = append(left, named{name, k})
			}
		}
		if len(left) == 0 || left[len(left)-1].group != k {
			left = append(left, named{"", k})
		}
	}
	slices.SortStableFunc(left, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for _, l := range left {
		b.place(l.group)
	}
}
