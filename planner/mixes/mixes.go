// Package mixes chooses, for each of many parts, one of few ways, so that all together take no more bytes than there are in one room
// or two, at least cost.
//
// Parts of one kind have the same choices. Prices on the bytes of each room bound the cost of all parts together (Lagrange); they
// fall apart then, each with the choice that is best at the prices. A dynamic program over choices that are not far from the best
// raises that bound: a mix is a choice for each of the parts so far, and no mix is kept that another beats in bytes and cost.
package mixes

import (
	"cmp"
	"context"
	"math"
	"slices"

	"memopt/internal/stop"
)

// Choice is a way for a part: what it takes of each room, and what it costs.
type Choice struct {
	Bytes [2]int64
	Cost  int64
}

// Kind is equal parts.
type Kind struct {
	Choices []Choice
	Times   int // how many parts there are
}

// Problem is parts that share rooms.
type Problem struct {
	Kinds   []Kind
	Room    [2]int64
	Single  bool    // there is one room, the first; choices take nothing of the other
	Whole   float64 // a cost that makes those of choices comparable: that of all there is
	Context context.Context

	Price [2]float64 // of a byte in either room, with the best bound
	Bound float64    // at these prices; infinite if the parts do not fit
	Looks int        // mixes that were looked at
}

// A Mix is, by kind, the choices of all parts.
type Mix [][]int32

// mix is a choice for each of the parts so far.
type mix struct {
	bytes [2]int64
	cost  int64
	far   float64 // cost at the prices above that of the best choices
	link
}

// link leads back through the choices of a mix.
type link struct {
	before int32 // the mix of the parts before the last
	last   int32 // the choice of the last part
}

// mixStep is the mixes after some parts of a kind, which all get one choice.
type mixStep struct {
	kind, times int
	links       []link
}

// nearChoice is a choice that is close to the best at the prices.
type nearChoice struct {
	which int32
	far   float64
}

// More mixes and prices make bounds exact, and their plans better, in more time.
const (
	mostMixes  = 1 << 9  // that are told apart for plans
	boundMixes = 1 << 12 // … for the bound
	mostMixing = 1 << 18 // looked at in one search
	setMixing  = 1 << 22 // … with one place
	mixPlans   = 2       // mixes that plans are made of
	setPlans   = 16      // … with one place
	enoughSets = 4       // … after which no wider search is made
	PriceSteps = 30      // halvings of the search for a price
	priceTries = 22      // prices tried at the first place
)

// mixReach and setReach, for one place, are how far above the bound mixes are searched for, as parts of the whole cost.
var mixReach, setReach = []float64{0.0003, 0.002, 0.02}, []float64{0.0003, 0.002, 0.02, 0.2, 2}

// priced is the cost of a choice with its bytes at prices.
func (c *Choice) priced(price [2]float64) float64 {
	return float64(c.Cost) + price[0]*float64(c.Bytes[0]) + price[1]*float64(c.Bytes[1])
}

// priced is the best choice at prices, and its cost with its bytes.
func (k *Kind) priced(price [2]float64) (best *Choice, least float64) {
	least = math.Inf(1)
	for i := range k.Choices {
		x := &k.Choices[i]
		if all := x.priced(price); all < least {
			best, least = x, all
		}
	}
	return best, least
}

// try is the bound at prices, and by how much the best choices exceed the rooms.
func (t *Problem) try(price [2]float64) (bound float64, over [2]int64) {
	for b, room := range t.Room {
		bound, over[b] = bound-price[b]*float64(room), -room
	}
	for i := range t.Kinds {
		k := &t.Kinds[i]
		best, least := k.priced(price)
		times := int64(k.Times)
		bound += least * float64(times)
		for b := range over {
			over[b] += best.Bytes[b] * times
		}
	}
	if bound > t.Bound {
		t.Bound, t.Price = bound, price
	}
	return bound, over
}

// raise finds the least price of a place at which the best choices fit its room.
func (t *Problem) raise(price [2]float64, place int, high float64) [2]float64 {
	price[place] = 0
	if _, over := t.try(price); over[place] <= 0 {
		return price
	}
	low := 0.0
	for range PriceSteps {
		price[place] = (low + high) / 2
		if _, over := t.try(price); over[place] > 0 {
			low = price[place]
		} else {
			high = price[place]
		}
	}
	price[place] = high
	return price
}

// narrow finds the maximum of a unimodal function by golden sections, until done.
func narrow(low, high float64, f func(float64) float64, times int, done func(i int) bool) {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := f(a), f(b)
	for i := range times {
		if done(i) {
			return
		}
		if fa >= fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = f(b)
		}
	}
}

// SetPrices finds the prices with the best bound. Neither is above the price that it has if the other place does not
// bind.
func (t *Problem) SetPrices() {
	t.Bound, t.Price = 0, [2]float64{}
	for b, room := range t.Room {
		for _, k := range t.Kinds {
			fewest := slices.MinFunc(k.Choices, func(x, y Choice) int { return cmp.Compare(x.Bytes[b], y.Bytes[b]) })
			room -= fewest.Bytes[b] * int64(k.Times)
		}
		if room < 0 {
			t.Bound = math.Inf(1)
			return
		}
	}
	dearest := 0.0
	for _, k := range t.Kinds {
		for _, c := range k.Choices {
			if b := max(c.Bytes[0], c.Bytes[1]); b > 0 {
				dearest = max(dearest, t.Whole/float64(b))
			}
		}
	}
	var alone [2]float64
	for place := range alone {
		if place == 1 && t.Single {
			break
		}
		high := dearest
		for ; high > 1; high /= 4 {
			price := [2]float64{}
			price[place] = high / 4
			if _, over := t.try(price); over[place] > 0 {
				break
			}
		}
		alone[place] = t.raise([2]float64{}, place, high)[place]
	}
	if alone[0] > 0 && alone[1] > 0 {
		look := func(price float64) float64 {
			bound, _ := t.try(t.raise([2]float64{price, 0}, 1, alone[1]))
			return bound
		}
		narrow(0, alone[0], look, priceTries, func(int) bool { return false })
	}
}

// Best raises the bound up to a target, and returns the cheapest mixes. It does not raise it far where it cannot exceed a bound that
// is known.
func (t *Problem) Best(target, known float64) (bound float64, cheapest []Mix) {
	if t.Bound >= target {
		return target, nil
	}
	least, found := t.Bound, math.Inf(1)
	reaches := mixReach
	if t.Single {
		reaches = setReach
	}
	for _, part := range reaches {
		reach := min(part*t.Whole, target-t.Bound)
		least, found, cheapest = t.mix(reach, false)
		if t.Single && len(cheapest) >= enoughSets || !t.Single && !math.IsInf(found, 1) || t.Bound+reach >= target {
			break
		}
	}
	if reach := min(found, target) - t.Bound; least < t.Bound+reach && t.Bound+reach > known && !math.IsInf(reach, 1) {
		least, _, _ = t.mix(reach, true)
	}
	return min(max(t.Bound, least), target), cheapest
}

// nearChoices is the choices of a kind that are close to the best at the prices.
type nearChoices struct {
	which           []nearChoice
	fewest, fullest [2]int64 // bytes of them at either place
	best            float64  // cost of the best with its bytes
}

func (t *Problem) near(k *Kind, reach float64) (n nearChoices) {
	_, n.best = k.priced(t.Price)
	for i, c := range k.Choices {
		far := c.priced(t.Price) - n.best
		if far > reach {
			continue
		}
		if len(n.which) == 0 {
			n.fewest = c.Bytes
		}
		n.which = append(n.which, nearChoice{int32(i), max(far, 0)})
		for b, bytes := range c.Bytes {
			n.fewest[b], n.fullest[b] = min(n.fewest[b], bytes), max(n.fullest[b], bytes)
		}
	}
	return n
}

// mix finds the cheapest choices of all parts within both rooms and within reach of the bound. It returns a bound on any choices, the
// cost of those found, and the cheapest mixes. If there are too many mixes, one that is no worse than either of two replaces both, to
// bound; else those farthest from the best are left out, and least is only valid if none was.
func (t *Problem) mix(reach float64, bounds bool) (least, found float64, cheapest []Mix) {
	x := mixer{t: t, reach: reach + reach*1e-9 + 1, bounds: bounds, exact: true}
	last, ok := x.all()
	t.Looks += x.work
	if found = math.Inf(1); !ok {
		return t.Bound, found, nil
	}
	slices.SortStableFunc(last, func(a, b mix) int { return cmp.Compare(a.cost, b.cost) })
	if len(last) > 0 {
		found = float64(last[0].cost)
	}
	if x.exact || bounds {
		least = min(t.Bound+x.reach, found)
	}
	if !bounds {
		count := mixPlans
		if t.Single {
			count = setPlans
		}
		for _, m := range last[:min(count, len(last))] {
			cheapest = append(cheapest, t.chosen(x.steps, m.link))
		}
	}
	return least, found, cheapest
}

// mixer extends mixes by one part after another.
type mixer struct {
	t               *Problem
	reach           float64
	bounds          bool      // for the bound, not for plans
	fewest, fullest [2]int64  // bytes of the parts to come
	sum             float64   // cost of the parts so far at the prices
	steps           []mixStep // for plans
	exact           bool      // no mix was left out or replaced
	work            int
	with, both      []mix // buffers
}

// all is the mixes of all parts. It reports false if there are too many to look at.
func (x *mixer) all() (last []mix, ok bool) {
	t := x.t
	near, order := make([]nearChoices, len(t.Kinds)), make([]int, len(t.Kinds))
	for i := range t.Kinds {
		order[i], near[i] = i, t.near(&t.Kinds[i], x.reach)
		x.await(&near[i], t.Kinds[i].Times)
	}
	// Kinds with many choices come first, while there are few mixes.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(near[b].which), len(near[a].which)) })
	last = []mix{{}}
	most := mostMixing
	if t.Single {
		most = setMixing
	}
	var next []mix
	for _, i := range order {
		n, parts, times := &near[i], t.Kinds[i].Times, 1
		if len(n.which) == 1 {
			times = parts
		}
		for range parts / times {
			stop.Poll(t.Context)
			if x.work += len(last) * len(n.which); x.work > most {
				return nil, false
			}
			x.await(n, -times)
			x.sum += n.best * float64(times)
			next = x.fewer(unbeaten(x.extended(next[:0], last, &t.Kinds[i], n, times)))
			if !x.bounds {
				links := make([]link, len(next))
				for at, m := range next {
					links[at] = m.link
				}
				x.steps = append(x.steps, mixStep{i, times, links})
			}
			last, next = next, last
		}
	}
	return last, true
}

// await adds so many parts of a kind to those to come.
func (x *mixer) await(n *nearChoices, times int) {
	for b := range x.fewest {
		x.fewest[b] += n.fewest[b] * int64(times)
		x.fullest[b] += n.fullest[b] * int64(times)
	}
}

// extended is mixes with a choice for so many more parts of a kind, by their bytes, as far as they fit and are within
// reach. next is an empty buffer.
func (x *mixer) extended(next, before []mix, k *Kind, n *nearChoices, times int) []mix {
	t := x.t
	var empty [2]int64 // bytes of the parts so far that leave no room unused if those to come are the fullest
	for b := range empty {
		empty[b] = t.Room[b] - x.fullest[b]
	}
	for _, c := range n.which {
		choice := &k.Choices[c.which]
		x.with = x.with[:0]
		for m, y := range before {
			y.link = link{int32(m), c.which}
			y.cost += choice.Cost * int64(times)
			if y.far += c.far * float64(times); y.far > x.reach {
				continue
			}
			for b := range y.bytes {
				y.bytes[b] += choice.Bytes[b] * int64(times)
			}
			if y.bytes[0]+x.fewest[0] > t.Room[0] { // and so have the others
				break
			}
			// Room that those to come cannot fill costs its price.
			full := float64(y.cost) + t.Price[0]*float64(max(y.bytes[0], empty[0])) + t.Price[1]*float64(max(y.bytes[1], empty[1])) - x.sum
			if y.bytes[1]+x.fewest[1] <= t.Room[1] && full <= x.reach {
				x.with = append(x.with, y)
			}
		}
		next, x.both = merged(x.both[:0], next, x.with, t.Single), next
	}
	return next
}

// fewer is the mixes, or fewer if there are too many.
func (x *mixer) fewer(all []mix) []mix {
	most := mostMixes
	if x.t.Single {
		most = boundMixes
	}
	switch {
	case x.bounds && len(all) > boundMixes:
		x.exact = false
		return halved(all)
	case !x.bounds && len(all) > most:
		x.exact = false
		return nearest(all, most/2)
	}
	return all
}

// merged appends two lists of mixes by their bytes to all, which is empty; with one place (single) only those that none
// before beats.
func merged(all, a, b []mix, single bool) []mix {
	for len(a)+len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].smaller(&a[0]) {
			from = &b
		}
		m := &(*from)[0]
		*from = (*from)[1:]
		if !single || len(all) == 0 || m.cost < all[len(all)-1].cost {
			all = append(all, *m)
		}
	}
	return all
}

// smaller orders mixes by their bytes.
func (m *mix) smaller(o *mix) bool {
	if m.bytes[0] != o.bytes[0] {
		return m.bytes[0] < o.bytes[0]
	}
	return m.bytes[1] < o.bytes[1] || m.bytes[1] == o.bytes[1] && m.cost < o.cost
}

// nearest leaves out the mixes that are farthest from the best.
func nearest(all []mix, n int) []mix {
	far := make([]float64, len(all))
	for i, m := range all {
		far[i] = m.far
	}
	slices.Sort(far)
	return slices.DeleteFunc(all, func(m mix) bool { return m.far > far[n] })
}

// unbeaten is the mixes, by their bytes, that no other beats in bytes and cost.
func unbeaten(all []mix) []mix {
	type stair struct{ bytes, cost int64 }
	var stairs []stair // of the mixes so far, by rising bytes at the second place and falling cost
	best := all[:0]
	for _, m := range all {
		i, high := 0, len(stairs) // by hand: this is most of the time that mixes take
		for i < high {
			if mid := (i + high) / 2; stairs[mid].bytes < m.bytes[1] {
				i = mid + 1
			} else {
				high = mid
			}
		}
		if i < len(stairs) && stairs[i].bytes == m.bytes[1] && stairs[i].cost <= m.cost || i > 0 && stairs[i-1].cost <= m.cost {
			continue
		}
		best = append(best, m)
		to := i
		for to < len(stairs) && stairs[to].cost >= m.cost {
			to++
		}
		stairs = slices.Replace(stairs, i, to, stair{m.bytes[1], m.cost})
	}
	return best
}

// halved replaces each two neighbours by one that is no worse than either.
func halved(all []mix) []mix {
	half := (len(all) + 1) / 2
	for i := range half {
		a, b := all[2*i], all[min(2*i+1, len(all)-1)]
		all[i] = mix{bytes: [2]int64{min(a.bytes[0], b.bytes[0]), min(a.bytes[1], b.bytes[1])}, cost: min(a.cost, b.cost), far: min(a.far, b.far)}
	}
	return all[:half]
}

// chosen is, by kind, the choices of all parts in a mix after the last step.
func (t *Problem) chosen(steps []mixStep, mix link) Mix {
	chosen := make(Mix, len(t.Kinds))
	for i := len(steps) - 1; i >= 0; i-- {
		for range steps[i].times {
			chosen[steps[i].kind] = append(chosen[steps[i].kind], mix.last)
		}
		if i > 0 {
			mix = steps[i-1].links[mix.before]
		}
	}
	return chosen
}
