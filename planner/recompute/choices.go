package recompute

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"memopt/planner/flow"
	"memopt/planner/internal/numbers"
	"memopt/planner/mixes"
)

// kind is equal parts of a knapsack.
type kind struct {
	parts   [][]int32 // items
	choices []choice
	mixed   []mixes.Choice // what they take and cost
	bits    bitPart
}

// choice is what to have of a part, as bits by its items.
type choice struct {
	mixes.Choice // bytes in grains, cost in units
	kept         [2]uint32
	between      uint32 // present between the places
}

// demands are the inputs of the maker of an item at either place, as items. What is needed after a place is present in
// time whatever is chosen, so it is not demanded. But what is needed only after the second place is present between the
// places only if it is demanded, which matters for what is read there; deep is what that is made of.
type demands struct {
	at   [2][]int32
	deep []int32
}

// Larger parts make pairs bind more, and take much longer: with 2048 options and 18 items the bound of a ResNet is 0.02
// points higher, in up to eight times the time.
const (
	mostItems      = 14      // of a part
	mostOptions    = 1 << 9  // of a part, for what is read after a place
	mostSetOptions = 1 << 14 // … with one place
	mostChoices    = 1 << 12 // pairs of two options
	mostDeep       = 3       // length of a chain of items needed later that demand each other
)

// all yields all demands.
func (a *demands) all(yield func(in int32) bool) {
	for _, list := range [][]int32{a.at[0], a.at[1], a.deep} {
		for _, in := range list {
			if !yield(in) {
				return
			}
		}
	}
}

// divide finds the parts and their choices. Of a part that is too large, the deepest demands are dropped, or else those
// for the item that most demand. That bounds from below.
func (t *knapsack) divide(known []int32) bool {
	n := len(t.values)
	same := make([]int32, len(t.s.p.Cost)) // by operator: its first value, counted from 1
	for i, v := range t.values {
		if op := t.s.sim.maker[v.value]; same[op] == 0 {
			same[op] = int32(i) + 1
		}
	}
	var less [mostDeep][]demands // … with less depth
	asks := t.asks(known, mostDeep)
	depth := slices.Repeat([]int32{mostDeep}, n)
	loosen := func(part []int32) (deep bool) {
		for _, i := range part {
			if len(asks[i].deep) > 0 {
				deep = true
			}
			if depth[i] > 0 {
				depth[i]--
			}
			if less[depth[i]] == nil {
				less[depth[i]] = t.asks(known, depth[i])
			}
			asks[i].deep = less[depth[i]][i].deep
		}
		return deep
	}
	var parts Lists
	for {
		up, asked := numbers.NewForest(n), make([]int32, n)
		for i := range int32(n) {
			up.Join(i, same[t.s.sim.maker[t.values[i].value]]-1)
			for in := range asks[i].all {
				up.Join(i, in)
				asked[in]++
			}
		}
		parts.join(up)
		large := t.choose(&parts, asks)
		if len(large) == 0 {
			return true
		}
		for _, k := range large {
			if part := parts.Of(k); !loosen(part) && !without(part, asks, asked) {
				return false
			}
		}
	}
}

// without drops a part's demands for the item that most of it demand. It reports false if there are none.
func without(part []int32, asks []demands, asked []int32) bool {
	most := slices.MaxFunc(part, func(a, b int32) int { return cmp.Or(cmp.Compare(asked[a], asked[b]), cmp.Compare(b, a)) })
	for _, i := range part {
		for k, list := range asks[i].at {
			asks[i].at[k] = slices.DeleteFunc(list, func(in int32) bool { return in == most })
		}
	}
	return asked[most] > 0
}

// choose lists the kinds of parts with their choices, and the parts that have too many.
func (t *knapsack) choose(parts *Lists, asks []demands) (large []int32) {
	t.kinds = t.kinds[:0]
	kinds := map[string]int{}
	local := make([]int32, len(t.values))
	var sign []byte
	for k := range int32(parts.Len()) {
		part := parts.Of(k)
		if len(part) > mostItems {
			large = append(large, k)
		}
		if len(part) == 0 || len(large) > 0 {
			continue
		}
		for j, i := range part {
			local[i] = int32(j)
		}
		sign = t.sign(sign[:0], part, local, asks)
		at, met := kinds[string(sign)]
		if !met {
			bits := t.bitsOf(part, local, asks)
			choices, ok := t.choices(&bits)
			if !ok {
				large = append(large, k)
				continue
			}
			at = len(t.kinds)
			kinds[string(sign)] = at
			t.kinds = append(t.kinds, kind{choices: choices, mixed: mixed(choices), bits: bits})
		}
		t.kinds[at].parts = append(t.kinds[at].parts, part)
	}
	return large
}

// sign is a signature of a part: equal parts have equal ones.
func (t *knapsack) sign(sign []byte, part, local []int32, asks []demands) []byte {
	maker := t.s.sim.maker
	for j, i := range part {
		x, flags := t.values[i], byte(0)
		for b, is := range [...]bool{x.at[0], x.at[1], x.reads[0], x.reads[1]} {
			if is {
				flags |= 1 << b
			}
		}
		first := 0 // with the same maker
		for maker[t.values[part[first]].value] != maker[x.value] {
			first++
		}
		sign = append(binary.AppendUvarint(sign, uint64(t.s.p.Bytes[x.value])), flags, byte(j-first))
		sign = binary.AppendUvarint(sign, uint64(t.s.price(maker[x.value])))
		for _, list := range [][]int32{asks[i].at[0], asks[i].at[1], asks[i].deep} {
			for _, in := range list {
				sign = append(sign, byte(local[in])+1)
			}
			sign = append(sign, 0)
		}
	}
	return sign
}

// asks lists the demands of all items, down to a depth.
func (t *knapsack) asks(known []int32, deep int32) []demands {
	p, maker := t.s.p, t.s.sim.maker
	all := make([]demands, len(t.values))
	depth := make([]int32, len(t.values)) // how many more deep items may follow
	var todo []int32
	for i, v := range t.values {
		if v.at[0] && v.reads[0] {
			depth[i] = deep
			todo = append(todo, int32(i))
		}
		if !p.Again[maker[v.value]] {
			continue
		}
		for _, in := range p.Inputs.Of(maker[v.value]) {
			k := known[in] - 1
			if k < 0 {
				continue
			}
			x := t.values[k]
			if v.at[0] && x.at[0] && k >= t.first.needed {
				all[i].at[0] = append(all[i].at[0], k)
			}
			if v.at[1] && x.at[1] && !x.reads[1] {
				all[i].at[1] = append(all[i].at[1], k)
			}
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		i := todo[0]
		op := maker[t.values[i].value]
		if !p.Again[op] {
			continue
		}
		for _, v := range p.Inputs.Of(op) {
			k, left := known[v]-1, depth[i]
			if k < 0 || !t.values[k].at[0] || t.values[k].reads[0] {
				continue
			}
			if k < t.first.needed {
				if left == 0 {
					continue
				}
				if left--; !slices.Contains(all[i].deep, k) {
					all[i].deep = append(all[i].deep, k)
				}
			}
			if left > depth[k] {
				depth[k] = left
				todo = append(todo, k)
			}
		}
	}
	return all
}

// bitPart is a part with its items as bits.
type bitPart struct {
	bytes, cost []int64
	made        []uint32 // by item: all that its maker makes
	asks        [2][]uint32
	at, reads   [2]uint32
}

// option is a way to have some items after a place: kept there, or recomputed.
type option struct {
	kept, made  uint32
	bytes, cost int64
}

// bitsOf is a part as bits.
func (t *knapsack) bitsOf(part, local []int32, asks []demands) (x bitPart) {
	maker := t.s.sim.maker
	for j, i := range part {
		v := t.values[i]
		made, ask := uint32(0), [2]uint32{}
		for k, o := range part {
			if maker[t.values[o].value] == maker[v.value] {
				made |= 1 << k
			}
		}
		for k := range 2 {
			for _, in := range asks[i].at[k] {
				ask[k] |= 1 << local[in]
			}
			if v.at[k] {
				x.at[k] |= 1 << j
			}
			if v.reads[k] {
				x.reads[k] |= 1 << j
			}
		}
		for _, in := range asks[i].deep {
			ask[0] |= 1 << local[in]
		}
		x.bytes, x.cost = append(x.bytes, t.s.p.Bytes[v.value]/t.grain), append(x.cost, t.s.price(maker[v.value]))
		x.made = append(x.made, made)
		x.asks[0], x.asks[1] = append(x.asks[0], ask[0]), append(x.asks[1], ask[1])
	}
	return x
}

// ways lists the options to have what is wanted after a place. It reports false if there are too many.
func (x *bitPart) ways(wanted uint32, place, most int) (all []option, ok bool) {
	var add func(w option, wanted uint32) bool
	add = func(w option, wanted uint32) bool {
		open := wanted & x.at[place] &^ (w.kept | w.made)
		if open == 0 {
			all = append(all, w)
			return len(all) <= most
		}
		i := bits.TrailingZeros32(open)
		keep := w
		keep.kept |= 1 << i
		keep.bytes += x.bytes[i]
		if !add(keep, wanted) {
			return false
		}
		if x.cost[i] >= flow.Endless {
			return true
		}
		w.made |= x.made[i]
		w.cost += x.cost[i]
		return add(w, wanted|x.asks[place][i])
	}
	ok = add(option{}, wanted)
	return all, ok
}

// choices lists the choices of a part that no other beats. It reports false if there are too many.
func (t *knapsack) choices(x *bitPart) (all []choice, ok bool) {
	most := mostOptions
	if t.second == nil {
		most = mostSetOptions
	}
	behind, ok := x.ways(x.reads[1], 1, most)
	if !ok {
		return nil, false
	}
	before := map[uint32][]option{}
	for _, b := range behind {
		wanted := (x.reads[0] | b.kept) & x.at[0]
		ways, known := before[wanted]
		if !known {
			if ways, ok = x.ways(wanted, 0, most); !ok {
				return nil, false
			}
			ways = unbeatenOptions(ways)
			before[wanted] = ways
		}
		if len(all)+len(ways) > mostChoices {
			return nil, false
		}
		for _, a := range ways {
			all = append(all, choice{mixes.Choice{Bytes: [2]int64{a.bytes, b.bytes}, Cost: a.cost + b.cost}, [2]uint32{a.kept, b.kept}, a.kept | a.made | ^x.at[0]})
		}
	}
	slices.SortFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Bytes[0], b.Bytes[0]), cmp.Compare(a.Bytes[1], b.Bytes[1]),
			cmp.Compare(a.kept[0], b.kept[0]), cmp.Compare(a.kept[1], b.kept[1]))
	})
	best := all[:0]
	for _, c := range all {
		if !slices.ContainsFunc(best, func(b choice) bool { return b.Bytes[0] <= c.Bytes[0] && b.Bytes[1] <= c.Bytes[1] }) {
			best = append(best, c)
		}
	}
	return best, true
}

// mixed is what choices take and cost.
func mixed(all []choice) []mixes.Choice {
	list := make([]mixes.Choice, len(all))
	for i, c := range all {
		list[i] = c.Choice
	}
	return list
}

// unbeatenOptions are the options that no other beats in bytes and cost.
func unbeatenOptions(all []option) []option {
	slices.SortFunc(all, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost), cmp.Compare(a.kept, b.kept))
	})
	best := all[:0]
	for _, w := range all {
		if len(best) == 0 || w.cost < best[len(best)-1].cost {
			best = append(best, w)
		}
	}
	return best
}
