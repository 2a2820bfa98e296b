package recompute

import (
	"cmp"
	"math"
	"slices"
)

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
	mostMixes   = 1 << 9  // that are told apart for plans
	boundMixes  = 1 << 12 // … for the bound
	mostMixing  = 1 << 18 // looked at in one search
	setMixing   = 1 << 22 // … with one place
	mixPlans    = 2       // mixes that plans are made of
	setPlans    = 16      // … with one place
	enoughPlans = 8       // … after which no wider search is made
	priceSteps  = 30      // halvings of the search for a price
	priceTries  = 22      // prices tried at the first place
)

// mixReach and setReach, for one place, are how far above the bound mixes are searched for, as parts of the whole cost.
var mixReach, setReach = []float64{0.0003, 0.002, 0.02}, []float64{0.0003, 0.002, 0.02, 0.2, 2}

// priced is the cost of a choice with its bytes at prices.
func (c *choice) priced(price [2]float64) float64 {
	return float64(c.cost) + price[0]*float64(c.bytes[0]) + price[1]*float64(c.bytes[1])
}

// priced is the best choice at prices, and its cost with its bytes.
func (k *kind) priced(price [2]float64) (best *choice, least float64) {
	least = math.Inf(1)
	for i := range k.choices {
		x := &k.choices[i]
		if all := x.priced(price); all < least {
			best, least = x, all
		}
	}
	return best, least
}

// try is the bound at prices, and by how much the best choices exceed the rooms.
func (t *knapsack) try(price [2]float64) (bound float64, over [2]int64) {
	for b, room := range t.room {
		bound, over[b] = bound-price[b]*float64(room), -room
	}
	for i := range t.kinds {
		k := &t.kinds[i]
		best, least := k.priced(price)
		times := int64(len(k.parts))
		bound += least * float64(times)
		for b := range over {
			over[b] += best.bytes[b] * times
		}
	}
	if bound > t.bound {
		t.bound, t.price = bound, price
	}
	return bound, over
}

// raise finds the least price of a place at which the best choices fit its room.
func (t *knapsack) raise(price [2]float64, place int, high float64) [2]float64 {
	price[place] = 0
	if _, over := t.try(price); over[place] <= 0 {
		return price
	}
	low := 0.0
	for range priceSteps {
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

// setPrices finds the prices with the best bound. Neither is above the price that it has if the other place does not
// bind.
func (t *knapsack) setPrices() {
	for b, room := range t.room {
		for _, k := range t.kinds {
			fewest := slices.MinFunc(k.choices, func(x, y choice) int { return cmp.Compare(x.bytes[b], y.bytes[b]) })
			room -= fewest.bytes[b] * int64(len(k.parts))
		}
		if room < 0 {
			t.bound = math.Inf(1)
			return
		}
	}
	dearest := 0.0
	for _, k := range t.kinds {
		for _, c := range k.choices {
			if b := max(c.bytes[0], c.bytes[1]); b > 0 {
				dearest = max(dearest, units/float64(b))
			}
		}
	}
	var alone [2]float64
	for place := range alone {
		if place == 1 && t.second == nil {
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

// best raises the bound up to a target, and returns plans of the cheapest mixes. It does not raise it far where it
// cannot exceed a bound that is known.
func (t *knapsack) best(target, known float64) (bound float64, plans []pricedStart) {
	if t.bound >= target {
		return target, nil
	}
	least, found := t.bound, math.Inf(1)
	reaches := mixReach
	if t.second == nil {
		reaches = setReach
	}
	for _, part := range reaches {
		reach := min(part*units, target-t.bound)
		if least, found, plans = t.mix(reach, false); len(plans) >= enoughPlans || t.second != nil && !math.IsInf(found, 1) || t.bound+reach >= target {
			break
		}
	}
	if reach := min(found, target) - t.bound; least < t.bound+reach && t.bound+reach > known && !math.IsInf(reach, 1) {
		least, _, _ = t.mix(reach, true)
	}
	return min(max(t.bound, least), target), plans
}

// nearChoices is the choices of a kind that are close to the best at the prices.
type nearChoices struct {
	which           []nearChoice
	fewest, fullest [2]int64 // bytes of them at either place
	best            float64  // cost of the best with its bytes
}

func (t *knapsack) near(k *kind, reach float64) (n nearChoices) {
	_, n.best = k.priced(t.price)
	for i, c := range k.choices {
		far := c.priced(t.price) - n.best
		if far > reach {
			continue
		}
		if len(n.which) == 0 {
			n.fewest = c.bytes
		}
		n.which = append(n.which, nearChoice{int32(i), max(far, 0)})
		for b, bytes := range c.bytes {
			n.fewest[b], n.fullest[b] = min(n.fewest[b], bytes), max(n.fullest[b], bytes)
		}
	}
	return n
}

// mix finds the cheapest choices of all parts within both rooms and within reach of the bound. It returns a bound on
// any choices, the cost of those found, and plans of them. If there are too many mixes, one that is no worse than
// either of two replaces both, to bound; for plans, those farthest from the best are left out, and least is only valid
// if none was.
func (t *knapsack) mix(reach float64, bounds bool) (least, found float64, plans []pricedStart) {
	x := mixer{t: t, reach: reach + reach*1e-9 + 1, bounds: bounds, exact: true}
	last, ok := x.all()
	t.looks += x.work
	if found = math.Inf(1); !ok {
		return t.bound, found, nil
	}
	slices.SortStableFunc(last, func(a, b mix) int { return cmp.Compare(a.cost, b.cost) })
	if len(last) > 0 {
		found = float64(last[0].cost)
	}
	if x.exact || bounds {
		least = min(t.bound+x.reach, found)
	}
	if !bounds {
		price := max(t.price[0], t.price[1]) / float64(t.grain) * t.s.unit
		count, ways := mixPlans, dealings
		if t.second == nil {
			count, ways = setPlans, setDealings
		}
		for _, m := range last[:min(count, len(last))] {
			chosen := t.chosen(x.steps, m.link)
			for _, w := range ways {
				plans = append(plans, pricedStart{func() plan { return t.plan(chosen, w) }, price})
			}
		}
	}
	return least, found, plans
}

// mixer extends mixes by one part after another.
type mixer struct {
	t               *knapsack
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
	near, order := make([]nearChoices, len(t.kinds)), make([]int, len(t.kinds))
	for i := range t.kinds {
		order[i], near[i] = i, t.near(&t.kinds[i], x.reach)
		x.await(&near[i], len(t.kinds[i].parts))
	}
	// Kinds with many choices come first, while there are few mixes.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(near[b].which), len(near[a].which)) })
	last = []mix{{}}
	most := mostMixing
	if t.second == nil {
		most = setMixing
	}
	var next []mix
	for _, i := range order {
		n, parts, times := &near[i], len(t.kinds[i].parts), 1
		if len(n.which) == 1 {
			times = parts
		}
		for range parts / times {
			t.s.p.poll()
			if x.work += len(last) * len(n.which); x.work > most {
				return nil, false
			}
			x.await(n, -times)
			x.sum += n.best * float64(times)
			next = x.fewer(unbeaten(x.extended(next[:0], last, &t.kinds[i], n, times)))
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
func (x *mixer) extended(next, before []mix, k *kind, n *nearChoices, times int) []mix {
	t := x.t
	var empty [2]int64 // bytes of the parts so far that leave no room unused if those to come are the fullest
	for b := range empty {
		empty[b] = t.room[b] - x.fullest[b]
	}
	for _, c := range n.which {
		choice := &k.choices[c.which]
		x.with = x.with[:0]
		for m, y := range before {
			y.link = link{int32(m), c.which}
			y.cost += choice.cost * int64(times)
			if y.far += c.far * float64(times); y.far > x.reach {
				continue
			}
			for b := range y.bytes {
				y.bytes[b] += choice.bytes[b] * int64(times)
			}
			if y.bytes[0]+x.fewest[0] > t.room[0] { // and so have the others
				break
			}
			// Room that those to come cannot fill costs its price.
			full := float64(y.cost) + t.price[0]*float64(max(y.bytes[0], empty[0])) + t.price[1]*float64(max(y.bytes[1], empty[1])) - x.sum
			if y.bytes[1]+x.fewest[1] <= t.room[1] && full <= x.reach {
				x.with = append(x.with, y)
			}
		}
		next, x.both = merged(x.both[:0], next, x.with, t.second == nil), next
	}
	return next
}

// fewer is the mixes, or fewer if there are too many.
func (x *mixer) fewer(all []mix) []mix {
	most := mostMixes
	if x.t.second == nil {
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

// dealing is how a mix becomes a plan. Of equal parts, those made first get the choices with the fewest bytes, or those
// made last (back). Values that are recomputed before the second place, but not demanded by their parts, are dropped
// after it, or not (brief).
type dealing struct{ back, brief bool }

var dealings, setDealings = []dealing{{}, {brief: true}, {back: true}}, []dealing{{}, {back: true}}

// chosen is, by kind, the choices of all parts in a mix after the last step.
func (t *knapsack) chosen(steps []mixStep, mix link) [][]int32 {
	chosen := make([][]int32, len(t.kinds))
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

// plan drops at the border what a mix does not keep at the first place, and after the second place what it does not
// keep there.
func (t *knapsack) plan(mix [][]int32, w dealing) plan {
	kept := make([]bool, len(t.values))
	lost, there := make([]bool, len(t.s.p.Bytes)), make([]bool, len(t.s.p.Bytes))
	for i, k := range t.kinds {
		chosen := slices.Clone(mix[i])
		slices.SortFunc(chosen, func(a, b int32) int {
			return cmp.Or(cmp.Compare(k.choices[a].bytes[0], k.choices[b].bytes[0]), cmp.Compare(a, b))
		})
		if w.back {
			slices.Reverse(chosen)
		}
		for n, part := range k.parts {
			c := &k.choices[chosen[n]]
			for j, v := range part {
				x := t.values[v]
				kept[v] = c.kept[0]>>j&1 == 1
				lost[x.value] = x.at[1] && c.kept[1]>>j&1 == 0 && t.s.droppable(x.value)
				there[x.value] = c.between>>j&1 == 1
			}
		}
	}
	p := t.s.keeping(t.first, func(i int) bool { return kept[i] })
	if sim := t.s.sim; w.brief && sim.run(p, math.MaxInt64) {
		for _, op := range sim.ops[sim.start[t.s.p.Border]:sim.start[t.second.at+1]] {
			for _, v := range t.s.p.Outputs.Of(op) {
				there[v] = true
			}
		}
	}
	for v, is := range lost {
		if is && there[v] {
			p.events = append(p.events, event{t.second.at + 1, int32(v)})
		}
	}
	return p
}
