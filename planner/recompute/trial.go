package recompute

import (
	"cmp"
	"math"
	"slices"
)

// trial evaluates one change of the plan that was simulated last, without walking it whole: the result is that of a
// walk of the changed plan. Only places at which a value is present in one plan and missing in the other are walked
// again, beginning with the place of the change. Elsewhere the launches are the same, and the bytes alive differ only
// by the live ranges of values touched at those places.
//
// So a trial has three steps: rewalk such places, in order (change); compare the live ranges that end, begin, or get
// another last reader (count); and sum the differences along the launches, where whole chunks with a constant
// difference need only their tops (sweep).
type trial struct {
	sim  *simulator
	uses *Lists // of the solver

	// The last walk.
	overBefore []float64 // by launch: bytes over the limit, summed over the launches before it
	newest     []int32   // by value: its last instance, dropped or not; of a held value the first; −1
	older      []int32   // by instance: the one before it of the same value, −1
	reads      readers   // launches that rerun an operator, by the values that they read
	firstEvent []int32   // by value: 1 + its first event
	nextEvent  []int32   // by event: 1 + the next one of its value
	withEvents []int32   // values with events

	// The current change.
	epoch     int32
	walks     int     // those of the simulator when the walk was taken in
	rewalked  []int32 // by place: the epoch in which it was rewalked
	trackOf   []int32 // by value: its track, if that is of this epoch
	tracks    []track
	newRanges []newRange
	replaced  []int32 // instances that are not in the new plan, or may have another last reader
	blocks    []block
	todo      []int32 // places to rewalk, rising
	touched   []int32 // tracks touched at the current place
	place     int32
	overlays  []newOverlay
	looked    []int32 // launches whose overlays were compared
	oldShifts []shift // of replaced instances
	newShifts []shift // of new ranges and overlays

	launches    int
	extra, over float64 // cost; bytes over the limit, summed over launches
	peak        int64
}

// track is a value that is touched at rewalked places, and its state after the last of them.
type track struct {
	value     int32
	place     int32 // the last place up to which it was followed
	block     int   // … its block
	differs   bool  // it is present in one plan and missing in the other
	present   bool  // in the new plan
	liveRange int32 // the new range of its current instance
}

// newRange is the live range of an instance in the new plan. Positions are launches of the walk times 1<<step, which
// leaves room for those of rewalked places in between.
type newRange struct {
	value       int32
	inherits    int32 // the instance of the walk whose readers at places that are not rewalked are its own, −1
	from        int32 // the instance of the walk that it was made from, −1 for one made at a rewalked place
	first, last int64
}

// block is a rewalked place.
type block struct {
	from, to int32   // its launches in the walk
	ops      []int32 // its launches in the new plan
}

// newOverlay is an output at a rewalked place that may lie over a range if that ends there.
type newOverlay struct {
	at    int64
	over  int32
	bytes int64
}

// shift is a change of the bytes alive from a position on.
type shift struct{ at, bytes int64 }

const (
	step  = 20 // bits of a position within a launch
	chunk = 64 // launches with one of the simulator's tops
)

// prepare takes in the last walk of the simulator.
func (t *trial) prepare() {
	s := t.sim
	t.walks = s.walks
	n, prob := s.launches, s.p
	values, ops := len(prob.Bytes), len(prob.Cost)
	t.overBefore = slices.Grow(t.overBefore[:0], n+1)[:n+1]
	sum, limit := 0.0, s.limit
	for from := 0; from < n; from += chunk {
		live := s.live[from:min(from+chunk, n)]
		area := t.overBefore[from:][:len(live)]
		if s.tops[from/chunk] <= limit {
			for k := range area {
				area[k] = sum
			}
			continue
		}
		for k, alive := range live {
			area[k] = sum
			if alive > limit {
				sum += float64(alive - limit)
			}
		}
	}
	t.overBefore[n] = sum
	t.newest = slices.Grow(t.newest[:0], values)[:values]
	t.older = slices.Grow(t.older[:0], s.instances)[:s.instances]
	known := 0
	if s.hasPrefix {
		known = s.atBorder.instances
		copy(t.newest, s.atBorder.newest)
		copy(t.older, s.atBorder.older)
	} else {
		for v := range t.newest {
			t.newest[v] = -1
		}
	}
	s.linkInstances(t.newest, t.older, known)
	t.listReaders(n)
	if t.rewalked == nil {
		t.rewalked, t.trackOf, t.firstEvent = make([]int32, ops+1), make([]int32, values), make([]int32, values)
	}
	for _, v := range t.withEvents {
		t.firstEvent[v] = 0
	}
	events := s.walked.events
	t.withEvents, t.nextEvent = t.withEvents[:0], slices.Grow(t.nextEvent[:0], len(events))[:len(events)]
	for k, e := range slices.Backward(events) {
		t.nextEvent[k] = t.firstEvent[e.value]
		t.firstEvent[e.value] = int32(k) + 1
		t.withEvents = append(t.withEvents, e.value)
	}
}

// listReaders lists the launches that rerun an operator by the values that they read. They are few, so only the lists
// of the values concerned are touched.
func (t *trial) listReaders(n int) {
	s, r := t.sim, &t.reads
	if r.begin == nil {
		r.begin, r.end = make([]int32, len(s.p.Bytes)), make([]int32, len(s.p.Bytes))
	}
	for _, v := range r.values {
		r.begin[v], r.end[v] = 0, 0
	}
	r.values, r.reruns = r.values[:0], r.reruns[:0]
	from := 0
	if s.hasPrefix {
		from = s.atBorder.launches
	}
	items := int32(0)
	ops, place := s.ops[from:n], s.place[from:n]
	for k, op := range ops {
		if op == place[k] {
			continue
		}
		r.reruns = append(r.reruns, int32(from+k))
		for _, v := range s.p.Inputs.Of(op) {
			if r.end[v] == 0 {
				r.values = append(r.values, v)
			}
			r.end[v]++
			items++
		}
	}
	r.items = slices.Grow(r.items[:0], int(items))[:items]
	sum := int32(0)
	for _, v := range r.values {
		count := r.end[v]
		r.begin[v], r.end[v] = sum, sum
		sum += count
	}
	for _, k := range r.reruns {
		for _, v := range s.p.Inputs.Of(s.ops[k]) {
			r.items[r.end[v]] = k
			r.end[v]++
		}
	}
}

// readers are launches by value that they read.
type readers struct {
	begin, end []int32 // by value
	items      []int32
	values     []int32 // those with lists that are not empty
	reruns     []int32 // the launches
}

func (r *readers) of(v int32) []int32 { return r.items[r.begin[v]:r.end[v]] }

// firstRun is the launch at which an operator runs first: the last one of its place.
func (t *trial) firstRun(op int32) int32 { return t.sim.start[op+1] - 1 }

// readsBefore counts the readers of a value before a launch: first runs, and reruns.
func (t *trial) readsBefore(v, launch int32) (first, again int) {
	first, _ = slices.BinarySearchFunc(t.uses.Of(v), launch, func(op, k int32) int { return cmp.Compare(t.firstRun(op), k) })
	again, _ = slices.BinarySearch(t.reads.of(v), launch)
	return first, again
}

// change evaluates the plan with one event more, or one less if drop is false. It reports false if that takes too many
// launches, or costs as much as most; then over and peak are not valid.
func (t *trial) change(e event, drop bool, most float64) bool {
	t.sim.p.poll()
	s := t.sim
	t.launches, t.extra, t.over, t.peak = s.launches, s.extra, s.over, s.peak
	if int(e.at) >= len(s.p.Cost) || e.at < s.p.until(e.value) {
		return t.extra < most
	}
	t.epoch++
	t.tracks, t.newRanges, t.replaced, t.blocks, t.todo, t.overlays = t.tracks[:0], t.newRanges[:0], t.replaced[:0], t.blocks[:0], t.todo[:0], t.overlays[:0]
	i, present := t.current(e.value, s.start[e.at]), false
	if i >= 0 {
		drops := t.drops(e.value, s.place[s.ranges[i].first], e.at)
		present = drop && drops == 0 || !drop && drops == 1
	}
	if !present {
		return t.extra < most
	}
	t.place = e.at
	k := t.track(e.value)
	tr := &t.tracks[k]
	tr.present, tr.differs, tr.liveRange = true, true, t.adopt(i)
	if drop {
		t.endReads(tr.liveRange, t.sim.start[e.at])
		tr.present = false
	}
	t.follow(tr, t.sim.start[e.at])
	for len(t.todo) > 0 {
		t.place = t.todo[0]
		t.todo = t.todo[:copy(t.todo, t.todo[1:])]
		t.rewalk()
		if t.launches > s.mostLaunches {
			return false
		}
	}
	if t.extra >= most {
		return false
	}
	t.count()
	return true
}

// current is the newest instance of a value before a launch, dropped or not; −1 if there is none.
func (t *trial) current(v, before int32) int32 {
	i := t.newest[v]
	for i >= 0 && t.sim.ranges[i].first >= before {
		i = t.older[i]
	}
	return i
}

// presentBefore is the instance of a value at the beginning of the current place in the walk, −1 if it is missing.
func (t *trial) presentBefore(v int32) int32 {
	i := t.current(v, t.sim.start[t.place])
	if i >= 0 && t.dropped(v, t.sim.place[t.sim.ranges[i].first], t.place) {
		return -1
	}
	return i
}

// dropped reports whether the plan of the walk drops a value after a place and up to another.
func (t *trial) dropped(v, behind, to int32) bool { return t.drops(v, behind, to) > 0 }

// drops counts how often the plan of the walk drops a value after a place and up to another.
func (t *trial) drops(v, behind, to int32) (times int) {
	p := &t.sim.walked
	until := t.sim.p.until(v)
	if at := max(t.sim.p.Border, until); p.gone[v] && behind < t.sim.p.Border && at <= to {
		times++
	}
	for k := t.firstEvent[v]; k > 0 && p.events[k-1].at <= to; k = t.nextEvent[k-1] {
		if at := p.events[k-1].at; at > behind && at >= until {
			times++
		}
	}
	return times
}

// track begins to follow a value.
func (t *trial) track(v int32) int32 {
	k := int32(len(t.tracks))
	t.tracks = append(t.tracks, track{value: v, place: t.place, liveRange: -1})
	t.trackOf[v] = k
	return k
}

// touch brings the track of a value up to the current place.
func (t *trial) touch(v int32) *track {
	k := t.trackOf[v]
	known := int(k) < len(t.tracks) && t.tracks[k].value == v
	if known && t.tracks[k].block == len(t.blocks) {
		return &t.tracks[k]
	}
	if !known {
		k = t.track(v)
	}
	t.touched = append(t.touched, k)
	tr := &t.tracks[k]
	tr.block = len(t.blocks)
	if tr.differs && t.dropped(v, tr.place, t.place) {
		t.end(tr)
		tr.differs = false
	}
	if !tr.differs { // it is what it is in the walk
		i := t.presentBefore(v)
		if tr.present && (i < 0 || t.newRanges[tr.liveRange].inherits != i) {
			t.end(tr)
		}
		if i >= 0 && !tr.present {
			tr.present, tr.liveRange = true, t.adopt(i)
		}
	}
	tr.place = t.place
	return tr
}

// end ends the range of a value that is no longer present.
func (t *trial) end(tr *track) {
	if tr.present {
		t.endReads(tr.liveRange, t.sim.start[t.place])
		tr.present = false
	}
}

// adopt makes a new range of an instance of the walk.
func (t *trial) adopt(i int32) int32 {
	t.replaced = append(t.replaced, i)
	at := int64(t.sim.ranges[i].first) << step
	t.newRanges = append(t.newRanges, newRange{t.sim.ranges[i].value, i, i, at, at})
	return int32(len(t.newRanges) - 1)
}

// endReads ends what a range inherits: readers from a launch on are not its own.
func (t *trial) endReads(k, before int32) {
	g := &t.newRanges[k]
	if g.inherits >= 0 {
		g.last = max(g.last, t.lastRead(g.inherits, before))
		g.inherits = -1
	}
}

// lastRead is the position of the last launch before another, at a place that is not rewalked, that reads an instance
// or up to which it must be kept; 0 if there is none.
func (t *trial) lastRead(i, before int32) int64 {
	return max(t.lastReader(i, before), t.keptUntil(i))
}

// keptUntil is the position of the launch up to which an instance must be kept; 0 if there is none.
func (t *trial) keptUntil(i int32) int64 {
	s := t.sim
	v := s.ranges[i].value
	until := s.p.until(v)
	if until == 0 || s.ranges[i].first != t.firstRun(s.maker[v]) {
		return 0
	}
	if t.rewalked[until-1] == t.epoch {
		for k := range t.blocks {
			if b := &t.blocks[k]; b.to == s.start[until] {
				return int64(b.from)<<step + int64(len(b.ops))
			}
		}
	}
	return int64(t.firstRun(until-1)) << step
}

// lastReader is lastRead without what must be kept.
func (t *trial) lastReader(i, before int32) int64 {
	s := t.sim
	last := s.ranges[i].last
	if int(last) == s.launches { // read after the last launch
		if int(before) > s.launches {
			return int64(last) << step
		}
	} else if last < before && t.rewalked[s.place[last]] != t.epoch {
		return int64(last) << step
	}
	v := s.ranges[i].value
	f, a := t.readsBefore(v, min(last+1, before))
	for f+a > 0 {
		k := int32(-1)
		if f > 0 {
			k = t.firstRun(t.uses.Of(v)[f-1])
		}
		if a > 0 && t.reads.of(v)[a-1] > k {
			a--
			k = t.reads.of(v)[a]
		} else {
			f--
		}
		if k <= s.ranges[i].first {
			break
		}
		if t.rewalked[s.place[k]] != t.epoch {
			return int64(k) << step
		}
	}
	return 0
}

// follow adds the next place from a launch on at which a value that differs is read or made to those to rewalk.
func (t *trial) follow(tr *track, from int32) {
	next := int32(math.MaxInt32)
	for i := t.newest[tr.value]; i >= 0 && t.sim.ranges[i].first >= from; i = t.older[i] {
		next = t.sim.place[t.sim.ranges[i].first]
	}
	if !tr.present {
		f, a := t.readsBefore(tr.value, from)
		if uses := t.uses.Of(tr.value); f < len(uses) {
			next = min(next, uses[f])
		}
		if reads := t.reads.of(tr.value); a < len(reads) {
			next = min(next, t.sim.place[reads[a]])
		}
	}
	if next == math.MaxInt32 || t.dropped(tr.value, t.place, next) {
		return
	}
	if j, known := slices.BinarySearch(t.todo, next); !known {
		t.todo = slices.Insert(t.todo, j, next)
	}
}

// rewalk walks the current place again.
func (t *trial) rewalk() {
	s := t.sim
	t.touched = t.touched[:0]
	t.rewalked[t.place] = t.epoch
	b := block{from: t.sim.start[t.place], to: t.sim.start[t.place+1]}
	if n := len(t.blocks); n < cap(t.blocks) { // reuse the array
		b.ops = t.blocks[:n+1][n].ops[:0]
	}
	t.blocks = append(t.blocks, b)
	for k := b.from; k < b.to; k++ {
		op := s.ops[k]
		for _, v := range s.p.Inputs.Of(op) {
			t.touch(v)
		}
		for _, v := range s.p.Outputs.Of(op) {
			t.touch(v)
		}
		if op != t.place {
			t.extra -= s.p.Cost[op]
		}
	}
	for i := s.firstMade[b.from]; int(i) < s.instances && s.ranges[i].first < b.to; i++ {
		t.replaced = append(t.replaced, i)
	}
	t.launches -= int(b.to - b.from)
	for _, v := range s.p.Inputs.Of(t.place) {
		if !t.touch(v).present {
			t.remake(s.maker[v])
		}
	}
	t.launch(t.place)
	t.launches += len(t.blocks[len(t.blocks)-1].ops)
	for _, k := range t.touched {
		tr := &t.tracks[k]
		i := t.current(tr.value, b.to)
		if i >= 0 && s.ranges[i].first < b.from && t.dropped(tr.value, s.place[s.ranges[i].first], t.place) {
			i = -1
		}
		tr.differs = tr.present != (i >= 0)
		if tr.present && t.newRanges[tr.liveRange].inherits != i {
			t.endReads(tr.liveRange, b.from)
			t.newRanges[tr.liveRange].inherits = i
		}
		if tr.differs {
			t.follow(tr, b.to)
		}
	}
}

// remake reruns the maker of a missing value, after its own missing inputs.
func (t *trial) remake(op int32) {
	s := t.sim
	for _, v := range s.p.Inputs.Of(op) {
		if !t.touch(v).present {
			t.remake(s.maker[v])
		}
	}
	t.extra += s.p.Cost[op]
	t.launch(op)
}

// launch appends a launch to the current block.
func (t *trial) launch(op int32) {
	s := t.sim
	b := &t.blocks[len(t.blocks)-1]
	at := int64(b.from)<<step + 1 + int64(len(b.ops))
	b.ops = append(b.ops, op)
	for _, v := range s.p.Inputs.Of(op) {
		t.newRanges[t.touch(v).liveRange].last = at
	}
	for _, v := range s.p.Over.Of(op) {
		t.overlays = append(t.overlays, newOverlay{at, t.touch(v).liveRange, s.p.Bytes[s.p.Outputs.Of(op)[0]]})
	}
	for _, v := range s.p.Outputs.Of(op) {
		tr := t.touch(v)
		k := int32(len(t.newRanges))
		t.newRanges = append(t.newRanges, newRange{v, -1, -1, at, at})
		if !(s.p.Held[v] || t.place < s.p.until(v)) || !tr.present {
			if tr.present {
				t.endReads(tr.liveRange, b.from)
			}
			tr.present, tr.liveRange = true, k
		}
	}
}

// count lists the shifts of all ranges that differ, and sums them.
func (t *trial) count() {
	s := t.sim
	t.oldShifts, t.newShifts, t.looked = t.oldShifts[:0], t.newShifts[:0], t.looked[:0]
	for k := range t.newRanges {
		t.endReads(int32(k), math.MaxInt32)
	}
	same := func(g *newRange) bool { return g.from >= 0 && g.last == t.lastOf(g.from) }
	for k := range t.newRanges {
		g := &t.newRanges[k]
		if same(g) {
			continue
		}
		bytes := s.p.Bytes[g.value]
		t.newShifts = append(t.newShifts, shift{g.first, bytes}, shift{g.last + 1, -bytes})
		t.overlayChanged(g.last, g.value)
	}
	next := 0 // ranges made from instances are in the order of replaced
	for _, i := range t.replaced {
		for next < len(t.newRanges) && t.newRanges[next].from < 0 {
			next++
		}
		if next < len(t.newRanges) && t.newRanges[next].from == i {
			next++
			if same(&t.newRanges[next-1]) {
				continue
			}
		}
		bytes := s.p.Bytes[s.ranges[i].value]
		t.oldShifts = append(t.oldShifts, shift{int64(s.ranges[i].first) << step, -bytes}, shift{int64(s.ranges[i].last+1) << step, bytes})
		t.overlayChanged(int64(s.ranges[i].last)<<step, s.ranges[i].value)
	}
	moved := int64(-1)
	for _, l := range t.overlays {
		if l.at != moved && t.newRanges[l.over].last == l.at {
			moved = l.at
			t.newShifts = append(t.newShifts, shift{l.at, -l.bytes}, shift{l.at + 1, l.bytes})
		}
	}
	for _, all := range [][]shift{t.oldShifts, t.newShifts} {
		slices.SortFunc(all, func(a, b shift) int { return cmp.Compare(a.at, b.at) })
	}
	t.sweep()
}

// lastOf is the position of the last reader of an instance in the walk, −1 if that place is rewalked.
func (t *trial) lastOf(i int32) int64 {
	if last := t.sim.ranges[i].last; last > t.sim.ranges[i].first {
		if int(last) < t.sim.launches && t.rewalked[t.sim.place[last]] == t.epoch {
			return -1
		}
		return int64(last) << step
	}
	return int64(t.sim.ranges[i].first) << step
}

// overlayChanged compares whether the first output of a launch that is not rewalked lies over an input in the walk and
// in the new plan: a range of v ends at that launch in one of them.
func (t *trial) overlayChanged(at int64, v int32) {
	s := t.sim
	k := int32(at >> step)
	if at&(1<<step-1) != 0 || int(k) >= s.launches || t.rewalked[s.place[k]] == t.epoch {
		return
	}
	op := s.ops[k]
	over := s.p.Over.Of(op)
	if !slices.Contains(over, v) || slices.Contains(t.looked, k) {
		return
	}
	t.looked = append(t.looked, k)
	was, is := false, false
	for _, w := range over {
		i := t.current(w, k)
		ends := i >= 0 && s.ranges[i].last == k
		was = was || ends
		if mark := t.trackOf[w]; int(mark) < len(t.tracks) && t.tracks[mark].value == w {
			replaced := slices.Contains(t.replaced, i)
			ends = !replaced && ends
			for j := range t.newRanges {
				ends = ends || t.newRanges[j].value == w && t.newRanges[j].last == at
			}
		}
		is = is || ends
	}
	if bytes := s.p.Bytes[s.p.Outputs.Of(op)[0]]; was != is {
		if was {
			bytes = -bytes
		}
		t.newShifts = append(t.newShifts, shift{at, -bytes}, shift{at + 1, bytes})
	}
}

// sweep sums the bytes alive along the launches of the new plan.
func (t *trial) sweep() {
	s := t.sim
	t.peak, t.over = 0, 0
	base, news := t.oldShifts, t.newShifts
	fewer, more := int64(0), int64(0)
	until := func(at int64) {
		for len(base) > 0 && base[0].at <= at {
			fewer += base[0].bytes
			base = base[1:]
		}
		for len(news) > 0 && news[0].at <= at {
			more += news[0].bytes
			news = news[1:]
		}
	}
	count := func(alive int64) {
		t.peak = max(t.peak, alive)
		if alive > s.limit {
			t.over += float64(alive - s.limit)
		}
	}
	k := int32(0)
	stretch := func(to int32) {
		for k < to {
			until(int64(k) << step)
			next := to
			if len(base) > 0 {
				next = min(next, int32((base[0].at+1<<step-1)>>step))
			}
			if len(news) > 0 {
				next = min(next, int32((news[0].at+1<<step-1)>>step))
			}
			if d := fewer + more; d == 0 {
				t.over += t.overBefore[next] - t.overBefore[k]
				t.peak = max(t.peak, t.highest(k, next))
			} else {
				peak, area := t.shifted(k, next, d)
				t.peak, t.over = max(t.peak, peak), t.over+float64(area)
			}
			k = next
		}
	}
	for i := range t.blocks {
		b := &t.blocks[i]
		stretch(b.from)
		raw := t.withoutOverlay(b.from)
		for j, op := range b.ops {
			// Old ranges count if they are alive at the first launch of the block.
			for len(base) > 0 && base[0].at <= int64(b.from)<<step {
				fewer += base[0].bytes
				base = base[1:]
			}
			for len(news) > 0 && news[0].at <= int64(b.from)<<step+1+int64(j) {
				more += news[0].bytes
				news = news[1:]
			}
			count(raw + fewer + more + s.p.Work[op])
		}
		k = b.to
	}
	stretch(int32(s.launches))
}

// withoutOverlay is the bytes of instances alive at a launch of the walk.
func (t *trial) withoutOverlay(k int32) int64 {
	s := t.sim
	bytes := s.live[k] - s.p.Work[s.ops[k]]
	if i, lies := slices.BinarySearchFunc(s.shifts, int64(k), func(x shift, k int64) int { return cmp.Compare(x.at, k) }); lies {
		bytes += s.shifts[i].bytes
	}
	return bytes
}

// shifted is the peak of launches [from, to) with so many more bytes at each, and their bytes over the limit, summed.
// Chunks within the limit count by their tops.
func (t *trial) shifted(from, to int32, by int64) (peak, over int64) {
	limit := t.sim.limit - by
	for from < to {
		if from%chunk == 0 && from+chunk <= to && t.sim.tops[from/chunk] <= limit {
			peak = max(peak, t.sim.tops[from/chunk]+by)
			from += chunk
			continue
		}
		end := min(to, from-from%chunk+chunk)
		for _, alive := range t.sim.live[from:end] {
			over += max(0, alive-limit)
			peak = max(peak, alive+by)
		}
		from = end
	}
	return peak, over
}

// highest is the most bytes alive at launches [from, to).
func (t *trial) highest(from, to int32) (peak int64) {
	for from < to && from%chunk != 0 {
		peak = max(peak, t.sim.live[from])
		from++
	}
	for ; from+chunk <= to; from += chunk {
		peak = max(peak, t.sim.tops[from/chunk])
	}
	for ; from < to; from++ {
		peak = max(peak, t.sim.live[from])
	}
	return peak
}
