package recompute

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// What is in question at a place falls into parts that have nothing to do with
// each other but the room (fold.go). Of a small part every choice can be listed,
// and only those matter that no other beats in bytes and in cost. What to choose
// of each is then a knapsack, which is solved to the byte: a price says how far
// each choice is from the best, and those can be left out that are farther than a
// plan is from the bound.

// choice is what is kept of a part, as bits by its values, and what it costs to
// make the others again.
type choice struct {
	bytes, cost int64
	kept        uint32
}

const (
	mostPart  = 12      // values of a part whose choices are listed
	cheapSets = 16      // sets that are looked at as plans
	mostMixed = 1 << 12 // ways to choose of several parts that are told apart
)

// choices lists those of each kind of part, the least bytes first. It reports
// false if a part is too large.
func (c *cut) choices() (kinds [][]choice, ok bool) {
	for k := range c.kinds {
		begin, end := c.part(k)
		if end-begin > mostPart {
			return nil, false
		}
		kinds = append(kinds, c.choicesOf(begin, end))
	}
	return kinds, true
}

// choicesOf lists those of the part of some folded values.
func (c *cut) choicesOf(begin, end int32) (all []choice) {
	var needed uint32
	n := end - begin
	made, asks := make([]uint32, n), make([]uint32, n) // by value, what its maker makes and asks for
	for i := range n {
		v := c.value[begin+i]
		if v.needed {
			needed |= 1 << i
		}
		for j := range n {
			if c.value[begin+j].maker == v.maker {
				made[i] |= 1 << j
			}
		}
		for _, in := range c.opOf(v).asks {
			if in >= begin && in < end { // not what is common to many parts
				asks[i] |= 1 << (in - begin)
			}
		}
	}
	for kept := range uint32(1) << n {
		x := choice{kept: kept}
		there := kept
		for todo := needed &^ there; todo != 0; todo &^= there {
			i := bits.TrailingZeros32(todo)
			x.cost += min(c.opOf(c.value[begin+int32(i)]).price, endless-x.cost)
			there |= made[i]
			todo |= asks[i]
		}
		for i := range n {
			if kept>>i&1 == 1 {
				x.bytes += c.value[begin+i].bytes
			}
		}
		if x.cost < endless {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost), cmp.Compare(a.kept, b.kept))
	})
	best := all[:0]
	for _, x := range all {
		if len(best) == 0 || x.cost < best[len(best)-1].cost {
			best = append(best, x)
		}
	}
	return best
}

// part is where the folded values of a kind of part begin and end.
func (c *cut) part(kind int) (begin, end int32) {
	if kind+1 < len(c.kinds) {
		return c.kinds[kind], c.kinds[kind+1]
	}
	return c.kinds[kind], int32(len(c.value))
}

// opOf is the maker of a folded value.
func (c *cut) opOf(v folded) foldedOp { return c.ops[int(v.maker)-2-len(c.value)] }

// times is how many equal parts there are of a kind.
func (c *cut) times(kind int) int64 { return c.value[c.kinds[kind]].times }

// priced is the best choice at a price, and what it costs with its bytes.
func priced(choices []choice, price float64) (best choice, least float64) {
	least = math.Inf(1)
	for _, x := range choices {
		if all := float64(x.cost) + price*float64(x.bytes); all < least {
			best, least = x, all
		}
	}
	return best, least
}

// mixture is a choice of each of the parts looked at so far.
type mixture struct {
	bytes, cost int64
	before      int32 // the mixture of the parts before the last
	last        int32 // the choice of that
}

// knapsack is what a set within a room costs at least, in units, or a target if
// that is less. If it is not, kept are the cheapest such sets by place in the cut's
// values, each dealt out to equal parts in two ways. ok is false if it cannot be
// told.
func (c *cut) knapsack(room int64, target float64) (least float64, kept [][]bool, ok bool) {
	kinds, ok := c.choices()
	if !ok {
		return 0, nil, false
	}
	price, bound, fits, ok := c.priceOf(kinds, room)
	if !ok {
		return math.Inf(1), nil, true
	}
	// Nothing that is farther from the bound than a set that fits is the cheapest.
	far := min(target, fits*(1+1e-9)+1) - bound
	mixtures, exact := [][]mixture{{{}}}, true
	sum := 0.0 // what the parts so far cost at the price
	for k, choices := range kinds {
		_, best := priced(choices, price)
		for range c.times(k) {
			sum += best
			before := mixtures[len(mixtures)-1]
			var next []mixture
			for i, x := range choices {
				var with []mixture
				for j, m := range before {
					m = mixture{m.bytes + x.bytes, m.cost + x.cost, int32(j), int32(i)}
					if m.bytes <= room && float64(m.cost)+price*float64(m.bytes)-sum <= far {
						with = append(with, m)
					}
				}
				next = merge(next, with)
			}
			c.spent += int64(len(before) * len(choices))
			if len(next) > mostMixed { // one for two neighbours, better than either
				exact = false
				half := (len(next) + 1) / 2
				for i := range half {
					next[i] = mixture{bytes: next[2*i].bytes, cost: next[min(2*i+1, len(next)-1)].cost}
				}
				next = next[:half]
			}
			mixtures = append(mixtures, next)
		}
	}
	last := mixtures[len(mixtures)-1]
	if len(last) == 0 || float64(last[len(last)-1].cost) >= target {
		return target, nil, true
	}
	if exact {
		for i := range min(cheapSets, len(last)) {
			kept = append(kept, c.deal(kinds, mixtures, len(last)-1-i)...)
		}
	}
	return max(bound, float64(last[len(last)-1].cost)), kept, true
}

// priceOf is the price on bytes that bounds best what a set within a room costs,
// that bound, and what the set costs that it chooses; ok is false if no set fits.
func (c *cut) priceOf(kinds [][]choice, room int64) (price, bound, fits float64, ok bool) {
	try := func(price float64) (bound, cost float64, bytes int64) {
		bound = -price * float64(room)
		for k, choices := range kinds {
			best, least := priced(choices, price)
			bound += least * float64(c.times(k))
			cost += float64(best.cost) * float64(c.times(k))
			bytes += best.bytes * c.times(k)
		}
		return bound, cost, bytes
	}
	low, high := 0.0, float64(2*units) // at which too much is kept, and little
	for _, choices := range kinds {
		if len(choices) == 0 {
			return 0, 0, 0, false
		}
	}
	if _, _, bytes := try(high); bytes > room {
		return 0, 0, 0, false
	}
	for range 64 {
		mid := (low + high) / 2
		if _, _, bytes := try(mid); bytes > room {
			low = mid
		} else {
			high = mid
		}
	}
	bound, fits, _ = try(high)
	return high, bound, fits, true
}

// merge is the mixtures of two lists that no other beats, the least bytes first.
func merge(a, b []mixture) []mixture {
	if len(a) == 0 {
		return b
	}
	all := make([]mixture, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && (b[0].bytes < a[0].bytes || b[0].bytes == a[0].bytes && b[0].cost < a[0].cost) {
			from = &b
		}
		m := (*from)[0]
		*from = (*from)[1:]
		if len(all) == 0 || m.cost < all[len(all)-1].cost {
			all = append(all, m)
		}
	}
	return all
}

// deal is what a mixture of all parts keeps, by place in the cut's values: of equal
// parts, the first ones keep the least or the most.
func (c *cut) deal(kinds [][]choice, mixtures [][]mixture, at int) (kept [][]bool) {
	chosen := make([][]int32, len(kinds)) // by kind: of each part
	stage := len(mixtures) - 1
	for k := len(kinds) - 1; k >= 0; k-- {
		for range c.times(k) {
			m := mixtures[stage][at]
			chosen[k] = append(chosen[k], m.last)
			at, stage = int(m.before), stage-1
		}
		slices.Sort(chosen[k])
	}
	kind := make([]int, len(c.value))
	for k := range c.kinds {
		for v, end := c.part(k); v < end; v++ {
			kind[v] = k
		}
	}
	for _, most := range []bool{false, true} {
		keeps := make([]bool, len(c.values))
		for i, v := range c.as {
			k, turn := kind[v], c.turn[i]
			if most {
				turn = int32(c.times(k)) - 1 - turn
			}
			keeps[i] = kinds[k][chosen[k][turn]].kept>>(v-c.kinds[k])&1 == 1
		}
		kept = append(kept, keeps)
	}
	return kept
}
