package recompute

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"memopt/memopt/stop"
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
	mostPart   = 12      // values of a part whose choices are listed
	largePart  = 32      // … where it is worth more time
	mostStood  = 1 << 14 // choices that are looked at for that
	cheapSets  = 16      // sets that are looked at as plans
	enoughSets = 4       // … of which so many need not be looked for any farther
	mostMixed  = 1 << 12 // ways to choose of several parts that are told apart
)

// choices lists those of each kind of part, the least bytes first. It is nil if a part has
// more values than so many. They are listed once.
func (c *cut) choices(most int32) [][]choice {
	kinds, known := c.listed[most]
	if !known {
		if kinds = c.list(most); c.listed == nil {
			c.listed = map[int32][][]choice{}
		}
		c.listed[most] = kinds
	}
	return kinds
}

func (c *cut) list(most int32) [][]choice {
	kinds := make([][]choice, len(c.kinds))
	for k := range kinds {
		begin, end := c.part(k)
		if end-begin > most {
			return nil
		}
		all, ok := c.choicesOf(begin, end)
		if !ok {
			return nil
		}
		kinds[k] = all
	}
	return kinds
}

// chooser lists the choices of a part. It comes to a value behind all that are made of it,
// so what is best of the values to come is known by what is wanted of them.
type chooser struct {
	bytes, cost []int64  // by value of the part; the cost of its maker
	made, asks  []uint32 // what that makes, and asks for
	order       []int32
	known       map[toChoose][]choice
	looked      int
}

// toChoose is where a chooser is: at which value, what is wanted of it and those to come,
// and what of these is made by what runs again.
type toChoose struct {
	at            int
	wanted, again uint32
}

// choicesOf lists those of the part of some folded values. It reports false if there are
// very many.
func (c *cut) choicesOf(begin, end int32) (all []choice, ok bool) {
	x := chooser{known: map[toChoose][]choice{}}
	var needed uint32
	for i := range end - begin {
		v := c.value[begin+i]
		if v.needed {
			needed |= 1 << i
		}
		made, asks := uint32(0), uint32(0)
		for j := range end - begin {
			if c.value[begin+j].maker == v.maker {
				made |= 1 << j
			}
		}
		for _, in := range c.opOf(v).asks {
			if in >= begin && in < end { // not what is common to many parts
				asks |= 1 << (in - begin)
			}
		}
		x.bytes, x.cost = append(x.bytes, v.bytes), append(x.cost, c.opOf(v).price)
		x.made, x.asks = append(x.made, made), append(x.asks, asks)
	}
	for i := range end - begin {
		x.put(i)
	}
	slices.Reverse(x.order)
	all = x.from(toChoose{0, needed, 0})
	return all, x.looked <= mostStood
}

// put adds a value to the order, behind all that it is made of.
func (x *chooser) put(i int32) {
	if slices.Contains(x.order, i) {
		return
	}
	for asks := x.asks[i]; asks != 0; asks &= asks - 1 {
		x.put(int32(bits.TrailingZeros32(asks)))
	}
	x.order = append(x.order, i)
}

// from is the choices from a value on that no other beats, the least bytes first.
func (x *chooser) from(t toChoose) []choice {
	for ; t.at < len(x.order) && (t.wanted&^t.again)>>x.order[t.at]&1 == 0; t.at++ {
		t.wanted &^= 1 << x.order[t.at]
		t.again &^= 1 << x.order[t.at]
	}
	if t.at == len(x.order) {
		return []choice{{}}
	}
	if all, known := x.known[t]; known || x.looked > mostStood {
		return all
	}
	i := x.order[t.at]
	var kept, made []choice
	for _, y := range x.from(toChoose{t.at + 1, t.wanted &^ (1 << i), t.again}) {
		kept = append(kept, choice{y.bytes + x.bytes[i], y.cost, y.kept | 1<<i})
	}
	if x.cost[i] < endless {
		for _, y := range x.from(toChoose{t.at + 1, t.wanted&^(1<<i) | x.asks[i], (t.again | x.made[i]) &^ (1 << i)}) {
			if y.cost < endless-x.cost[i] {
				made = append(made, choice{y.bytes, y.cost + x.cost[i], y.kept})
			}
		}
	}
	x.looked += len(kept) + len(made)
	all := slices.Concat(kept, made)
	slices.SortFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.cost, b.cost), cmp.Compare(a.kept, b.kept))
	})
	best := all[:0]
	for _, y := range all {
		if len(best) == 0 || y.cost < best[len(best)-1].cost {
			best = append(best, y)
		}
	}
	x.known[t] = best
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
	link
}

// link is what remains of a mixture, so as to tell what it chose.
type link struct {
	before int32 // the mixture of the parts before the last
	last   int32 // the choice of that
}

// knapsack is what a set within a room costs at least, in units, or a target if
// that is less. If it is not, kept are the cheapest such sets by place in the cut's
// values, each dealt out to equal parts in two ways. ok is false if it cannot be
// told, as a part has more values than so many.
func (c *cut) knapsack(room int64, target float64, part int32) (least float64, kept [][]bool, ok bool) {
	kinds := c.choices(part)
	if kinds == nil {
		return 0, nil, false
	}
	price, bound, fits, ok := c.priceOf(kinds, room)
	if !ok {
		return math.Inf(1), nil, true
	}
	// Nothing that is farther from the bound than a set that fits is the cheapest. Mostly
	// that is much nearer, and what is near is soon looked at.
	far := min(target, fits*(1+1e-9)+1) - bound
	least = bound
	for reach := far / (1 << knapsackReaches); ; reach *= 4 {
		reach = min(reach, far)
		last, links := c.mixtures(kinds, room, price, reach)
		if links == nil { // which are too many to tell apart
			if len(last) > 0 {
				least = max(least, float64(last[len(last)-1].cost))
			}
			return min(least, target), kept, true
		}
		if len(last) == 0 {
			if least = bound + reach; reach == far {
				return target, nil, true
			}
			continue
		}
		if least = max(bound, float64(last[len(last)-1].cost)); least >= target {
			return target, nil, true
		}
		kept = kept[:0]
		for i := range min(cheapSets, len(last)) {
			kept = append(kept, c.deal(kinds, links, len(last)-1-i)...)
		}
		if len(last) >= enoughSets || reach == far {
			return least, kept, true
		}
	}
}

// knapsackReaches is how often the way to what is too far is halved for sets that are near.
const knapsackReaches = 6

// mixtures puts together the choices of all parts that are within a room and not farther
// than reach from the best at a price, those that no other beats, the least bytes first.
// links tell what they chose; nil is that there are very many, so that some stand for two
// that they are no worse than.
func (c *cut) mixtures(kinds [][]choice, room int64, price, reach float64) (last []mixture, links [][]link) {
	near := make([]nearby, len(kinds))
	var fewest, most int64 // bytes of the parts to come
	for k, choices := range kinds {
		near[k] = nearbyOf(choices, price, reach)
		fewest += near[k].fewest * c.times(k)
		most += near[k].most * c.times(k)
	}
	exact := true
	before := []mixture{{}}
	var with, next, merged []mixture // used again and again: there are many
	sum := -price * float64(room)    // what the parts so far cost at the price
	for k, choices := range kinds {
		n := &near[k]
		for range c.times(k) {
			stop.Poll(c.net.ctx)
			sum += n.best
			fewest -= n.fewest
			most -= n.most
			next = next[:0]
			for _, i := range n.which {
				x := choices[i]
				with = with[:0]
				for j, m := range before {
					m = mixture{m.bytes + x.bytes, m.cost + x.cost, link{int32(j), i}}
					if m.bytes+fewest > room { // and so have the others
						break
					}
					// What those to come cannot fill costs its price.
					if float64(m.cost)-price*float64(min(room-m.bytes, most))-sum <= reach {
						with = append(with, m)
					}
				}
				merged = merge(merged[:0], next, with)
				next, merged = merged, next
			}
			c.spent += int64(len(before) * len(n.which))
			if len(next) > mostMixed { // one for two neighbours, better than either
				exact = false
				half := (len(next) + 1) / 2
				for i := range half {
					next[i] = mixture{bytes: next[2*i].bytes, cost: next[min(2*i+1, len(next)-1)].cost}
				}
				next = next[:half]
			}
			if exact {
				all := make([]link, len(next))
				for i, m := range next {
					all[i] = m.link
				}
				links = append(links, all)
			}
			before, next = next, before
		}
	}
	if !exact {
		links = nil
	}
	return before, links
}

// nearby is the choices of a part that are not far from the best at a price, the fewest
// and the most bytes that one of them has, and what the best costs with its bytes.
type nearby struct {
	which        []int32
	fewest, most int64
	best         float64
}

func nearbyOf(choices []choice, price, far float64) (n nearby) {
	_, n.best = priced(choices, price)
	for i, x := range choices { // the least bytes first
		if float64(x.cost)+price*float64(x.bytes)-n.best > far {
			continue
		}
		if len(n.which) == 0 {
			n.fewest = x.bytes
		}
		n.which, n.most = append(n.which, int32(i)), x.bytes
	}
	return n
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

// merge adds to all, which is empty, the mixtures of two lists that no other beats, the
// least bytes first.
func merge(all, a, b []mixture) []mixture {
	if len(a) == 0 {
		return append(all, b...)
	}
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
func (c *cut) deal(kinds [][]choice, links [][]link, at int) (kept [][]bool) {
	chosen := make([][]int32, len(kinds)) // by kind: of each part
	stage := len(links) - 1
	for k := len(kinds) - 1; k >= 0; k-- {
		for range c.times(k) {
			m := links[stage][at]
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
