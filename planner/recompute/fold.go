package recompute

import (
	"encoding/binary"
	"slices"

	"memopt/planner/flow"
	"memopt/planner/internal/numbers"
)

// folding is the folded network of a cut.
//
// Needed values are present in time whatever is chosen, kept or recomputed. So of the edges from makers to inputs,
// those to needed values say nothing. Without them the network falls into parts: needed values, with what would be
// recomputed for them alone. Repeated layers have equal parts, so the network has one part for all that are equal; what
// a price chooses of it goes for each of them, and counts as often.
//
// A common input of many parts, such as a mask that all layers read, does not join them. Parts that read the same
// common values are equal if nothing else differs: one stands for all, with so many times their capacities. The
// smallest of the cheapest cuts treats equal parts alike, so it is that of the whole network, to the unit. Plans in
// which layers differ come from starts.go.
type folding struct {
	net      flow.Network
	empty    []int64  // capacities without flow at price 0
	foldedOf []int32  // by index in the cut's values: its folded value
	value    []folded // with vertices from 2 on
	ops      []foldedOp
}

// folded is a value of the folded network.
type folded struct {
	place  int32 // the index of one of the cut's values that it stands for
	bytes  int64
	needed bool  // read after the cut's place
	times  int64 // how many it stands for
	by     int64 // how many its capacities count for: 1 if its part reads nothing common
	keep   int32 // the edge that keeps it
	maker  int32 // its vertex
}

// foldedOp is an operator of the folded network.
type foldedOp struct {
	vertex int32
	times  int64
	price  int64   // cost in units
	asks   []int32 // folded inputs that are not needed values
}

const (
	common = 8  // readers of a value that joins no parts; fewer fold more networks to the same cut
	mostBy = 32 // parts with common values that one stands for; more would exceed the capacity of an edge
)

// folder folds a cut.
type folder struct {
	s     *Solver
	c     *cut
	first []int32 // by index: the first value with the same maker
	asked []int32 // by index: how many operators read it
	folding
}

// fold folds a cut, whose values have their index in the solver, counted from 1.
func (s *Solver) fold(c *cut, first []int32) folding {
	n := len(c.values)
	f := &folder{s: s, c: c, first: first, asked: make([]int32, n)}
	f.foldedOf, f.value = make([]int32, n), s.folded[:0]
	for i := range int32(n) {
		f.asks(i, func(in int32) { f.asked[in]++ })
	}
	known := map[string]int32{} // by signature of a part: its first folded value
	local := make([]int32, n)
	var sign []byte
	parts := f.parts()
	for k := range int32(parts.Len()) {
		part := parts.Of(k)
		if len(part) == 0 {
			continue
		}
		for j, i := range part {
			local[i] = int32(j)
		}
		alone := true // it asks for nothing common
		sign = sign[:0]
		for _, i := range part {
			sign = binary.AppendUvarint(sign, uint64(f.bytes(i)))
			sign = binary.AppendUvarint(sign, uint64(local[first[i]]))
			switch {
			case i < c.needed:
				sign = append(sign, 1)
			case f.common(i):
				sign = binary.AppendUvarint(append(sign, 2), uint64(i)) // there is no other
			default:
				sign = append(sign, 0)
			}
			if first[i] != i {
				continue
			}
			sign = binary.AppendUvarint(sign, uint64(f.s.price(f.s.sim.maker[f.c.values[i]])))
			f.asks(i, func(in int32) {
				if f.common(in) {
					alone = false
					sign = binary.AppendUvarint(append(sign, 2), uint64(in))
				} else {
					sign = binary.AppendUvarint(append(sign, 1), uint64(local[in]))
				}
			})
			sign = append(sign, 0)
		}
		begin, met := known[string(sign)]
		if !met || !alone && f.value[begin].times == mostBy {
			begin = int32(len(f.value))
			known[string(sign)] = begin
			for _, i := range part {
				f.value = append(f.value, folded{place: i, bytes: f.bytes(i), needed: i < c.needed, by: 1})
			}
		}
		for j, i := range part {
			v := &f.value[begin+int32(j)]
			if v.times++; !alone {
				v.by = v.times
			}
			f.foldedOf[i] = begin + int32(j)
		}
	}
	s.folded, f.value = f.value, slices.Clone(f.value)
	f.connect()
	return f.folding
}

func (f *folder) bytes(i int32) int64 { return f.s.p.Bytes[f.c.values[i]] }

// common reports whether many read a value.
func (f *folder) common(i int32) bool { return f.asked[i] > common }

// asks yields the inputs of the maker of a value that are not needed, by index; none if an earlier value has the same
// maker.
func (f *folder) asks(i int32, each func(in int32)) {
	op := f.s.sim.maker[f.c.values[i]]
	if f.first[i] != i || !f.s.p.Again[op] {
		return
	}
	for _, v := range f.s.p.Inputs.Of(op) {
		if in := f.s.index[v] - 1; in >= f.c.needed {
			each(in)
		}
	}
}

// price is the cost of a rerun of an operator in units, endless if it may run only once.
func (s *Solver) price(op int32) int64 {
	if !s.p.Again[op] {
		return flow.Endless
	}
	return int64(s.p.Cost[op] / s.unit)
}

// parts lists the values, by index, that makers and their inputs join, in the order of their first ones.
func (f *folder) parts() (parts Lists) {
	n := int32(len(f.c.values))
	up := numbers.NewForest(int(n))
	for i := range n {
		up.Join(i, f.first[i])
		f.asks(i, func(in int32) {
			if !f.common(in) {
				up.Join(i, in)
			}
		})
	}
	parts.join(up)
	return parts
}

// connect makes the network.
func (f *folder) connect() {
	ops, edges := 0, 2*len(f.value) // at most: from the source, and to the maker
	for _, v := range f.value {
		if f.first[v.place] == v.place {
			ops++
			edges += 1 + len(f.s.p.Inputs.Of(f.s.sim.maker[f.c.values[v.place]]))
		}
	}
	f.net.Reset(f.s.p.Context, 2+len(f.value)+ops, edges)
	f.ops = make([]foldedOp, 0, ops)
	for k := range f.value {
		v, vertex := &f.value[k], int32(2+k)
		if v.needed {
			f.net.Edge(flow.Source, vertex, flow.Endless)
		}
		if first := f.first[v.place]; first != v.place {
			v.maker = f.value[f.foldedOf[first]].maker
		} else {
			v.maker = int32(2 + len(f.value) + len(f.ops))
			price := f.s.price(f.s.sim.maker[f.c.values[v.place]])
			op := foldedOp{vertex: v.maker, times: v.times, price: price}
			f.asks(v.place, func(in int32) {
				op.asks = append(op.asks, f.foldedOf[in])
				f.net.Edge(v.maker, 2+f.foldedOf[in], flow.Endless)
			})
			f.ops = append(f.ops, op)
			if price < flow.Endless {
				price *= v.by
			}
			f.net.Edge(v.maker, flow.Sink, price)
		}
		v.keep = f.net.Edge(vertex, v.maker, 0)
	}
	f.empty = append(f.empty, f.net.Cap...)
}
