package recompute

import (
	"encoding/binary"
	"slices"
)

// folding is the network of a cut, folded up.
//
// What is read behind a place is there in time whatever is chosen: kept, or made
// again. So what is made from it need not ask for it, and of the edges from makers
// to inputs those to needed values say nothing. Without them a cut falls into
// parts: a needed value, or several, with what would be made for them alone.
// Repeated layers have equal parts, so there are few different ones, and the
// network has one for all that are equal. What a price chooses of it goes for
// each of them, and counts as often.
//
// A common value that many parts ask for, as layers do for one mask, holds no
// parts together. Those that ask for the same are equal too if nothing else tells
// them apart: one stands for them with as many times their capacities. The least
// of all cheapest cuts treats alike what can be exchanged, so it is that of the
// whole network, to the unit.
//
// How layers still come to differ in a plan is a matter of starts.go.
type folding struct {
	net   network
	empty []int64  // capacities without any flow and at price 0
	as    []int32  // by place in the cut's values: the folded value that stands for it
	value []folded // with vertices from 2 on
	ops   []foldedOp
}

// folded is a value in the network.
type folded struct {
	place  int32 // one of those in the cut's values that it stands for
	bytes  int64
	needed bool  // read after the cut's place
	times  int64 // how many it stands for
	by     int64 // how many its capacities are for: 1 if its part asks for nothing common
	keep   int32 // the edge that keeps it
	maker  int32 // vertex
}

// foldedOp is an operator in the network.
type foldedOp struct {
	vertex int32
	times  int64
	price  int64   // cost in units
	asks   []int32 // folded values that it needs besides needed ones
}

const (
	// common is how many operators ask for a value that holds no parts together.
	common = 8
	// mostBy is how many parts that ask for something common one stands for:
	// their capacities together are no more than an edge may have.
	mostBy = 32
)

// folder is the work of folding a cut.
type folder struct {
	s     *Solver
	c     *cut
	first []int32 // by place in the cut's values: the first with the same maker
	asked []int32 // by place: how many operators ask for it
	folding
}

// fold folds up a cut. The solver's place tells, by value, where it stands in
// the cut's values, counted from 1.
func (s *Solver) fold(c *cut, first []int32) folding {
	n := len(c.values)
	f := &folder{s: s, c: c, first: first, asked: make([]int32, n)}
	f.as, f.value = make([]int32, n), s.folded[:0]
	for i := range int32(n) {
		f.asks(i, func(in int32) { f.asked[in]++ })
	}
	known := map[string]int32{} // by signature of a part: the first folded value
	local := make([]int32, n)
	var sign []byte
	parts := f.parts()
	for k := range int32(parts.Len()) {
		part := parts.Of(k)
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
			sign = binary.AppendUvarint(sign, uint64(f.price(i)))
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
			f.as[i] = begin + int32(j)
		}
	}
	s.folded, f.value = f.value, slices.Clone(f.value)
	f.connect()
	return f.folding
}

func (f *folder) bytes(i int32) int64 { return f.s.p.Bytes[f.c.values[i]] }

// common reports whether a value is asked for by many.
func (f *folder) common(i int32) bool { return f.asked[i] > common }

// asks names what must be there to run the maker of a value again, of the cut's
// values and by their places, but for needed ones. It says nothing if another
// value has the same maker and comes first.
func (f *folder) asks(i int32, each func(in int32)) {
	op := f.s.sim.maker[f.c.values[i]]
	if f.first[i] != i || !f.s.p.Again[op] {
		return
	}
	for _, v := range f.s.p.Inputs.Of(op) {
		if in := f.s.place[v] - 1; in >= f.c.needed {
			each(in)
		}
	}
}

// price is what running the maker of a value again costs.
func (f *folder) price(i int32) int64 { return f.s.price(f.s.sim.maker[f.c.values[i]]) }

// price is what running an operator again costs in units. What it makes must have been
// kept if it runs once.
func (s *Solver) price(op int32) int64 {
	if !s.p.Again[op] {
		return endless
	}
	return int64(s.p.Cost[op] / s.unit)
}

// parts lists the values, by their places, that hang together through makers and
// what those ask for.
func (f *folder) parts() (parts Lists) {
	n := int32(len(f.c.values))
	up := newForest(int(n))
	for i := range n {
		up.join(i, f.first[i])
		f.asks(i, func(in int32) {
			if !f.common(in) {
				up.join(i, in)
			}
		})
	}
	number, count := make([]int32, n), int32(0) // of parts, in the order of their first values
	for i := range n {
		if t := up.top(i); t != i {
			number[i] = number[t]
			continue
		}
		number[i] = count
		count++
	}
	parts.rebuild(int(count), func(put func(list, item int32)) {
		for i, k := range number {
			put(k, int32(i))
		}
	})
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
	f.net.ctx = f.s.p.Context
	f.net.reset(2+len(f.value)+ops, edges)
	f.ops = make([]foldedOp, 0, ops)
	for k := range f.value {
		v, vertex := &f.value[k], int32(2+k)
		if v.needed {
			f.net.edge(source, vertex, endless)
		}
		if first := f.first[v.place]; first != v.place {
			v.maker = f.value[f.as[first]].maker
		} else {
			v.maker = int32(2 + len(f.value) + len(f.ops))
			price := f.price(v.place)
			op := foldedOp{vertex: v.maker, times: v.times, price: price}
			f.asks(v.place, func(in int32) {
				op.asks = append(op.asks, f.as[in])
				f.net.edge(v.maker, 2+f.as[in], endless)
			})
			f.ops = append(f.ops, op)
			if price < endless {
				price *= v.by
			}
			f.net.edge(v.maker, sink, price)
		}
		v.keep = f.net.edge(vertex, v.maker, 0)
	}
	f.empty = append(f.empty, f.net.cap...)
}
