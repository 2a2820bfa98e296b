package recompute

import (
	"cmp"
	"math"
	"slices"
)

// trial tells what one change makes of the plan that was simulated last, without
// walking it whole. Only places at which something is there in one plan and not
// in the other are walked anew; elsewhere the same launches run, and of what is
// alive there only the values differ that were touched at those places.
type trial struct {
	sim  *simulator
	uses *Lists // the solver's

	// Of the walk that was made last.
	area   []float64 // by launch: bytes over the limit before it
	newest []int32   // by value: its last instance, forgotten or not; of what is held the first, −1
	older  []int32   // by instance: the one of its value before it, −1
	reads  readers   // launches that run again, by value that they read
	event  []int32   // by value: its first event, counted from 1
	later  []int32   // by event: the next one of its value, likewise
	marked []int32   // values with events

	// Of the change at hand.
	epoch    int32
	walks    int     // the simulator's when the plan was taken in
	affected []int32 // by place: the epoch in which it is walked anew
	mark     []int32 // by value: its track, if that is of this epoch
	tracks   []track
	segments []segment
	removed  []int32 // instances that are told anew
	blocks   []block
	todo     []int32 // places to walk, rising
	here     []int32 // tracks touched at the place at hand
	place    int32
	lies     []lying
	looked   []int32 // launches whose overlay is known
	base     []shift // of what is removed, and of segments
	news     []shift

	launches    int
	extra, over float64 // cost; bytes over the limit, summed over launches
	peak        int64
}

// track is what became of a value that a change touches.
type track struct {
	value   int32
	place   int32 // up to which it was followed
	block   int   // the last that touched it
	differs bool  // it is there in one plan and not in the other
	present bool
	segment int32
}

// segment is an instance after the change, which takes over the reads of one
// before it. Positions are launches in steps of 1<<20, so that there is room for
// those that come between.
type segment struct {
	value       int32
	inst        int32 // whose reads, where nothing is walked anew, are its own; −1
	told        int32 // the instance that it was made from, −1
	first, last int64
}

// block is the launches of a place that is walked anew.
type block struct {
	from, to int32 // its launches before
	ops      []int32
}

// lying is an output that may lie over a segment that ends there.
type lying struct {
	at      int64
	segment int32
	bytes   int64
}

type shift struct{ at, bytes int64 }

const (
	step  = 20 // bits of a position within a launch
	chunk = 64
)

// prepare takes in the plan that the simulator has just walked.
func (t *trial) prepare() {
	s := t.sim
	t.walks = s.walks
	n, prob := s.launches, s.p
	values, ops := len(prob.Bytes), len(prob.Cost)
	t.area = slices.Grow(t.area[:0], n+1)[:n+1]
	sum, limit := 0.0, s.limit
	for from := 0; from < n; from += chunk {
		live := s.live[from:min(from+chunk, n)]
		area := t.area[from:][:len(live)]
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
	t.area[n] = sum
	t.newest = slices.Grow(t.newest[:0], values)[:values]
	t.older = slices.Grow(t.older[:0], s.instances)[:s.instances]
	known := 0
	if s.kept {
		known = s.border.instances
		copy(t.newest, s.border.newest)
		copy(t.older, s.border.older)
	} else {
		for v := range t.newest {
			t.newest[v] = -1
		}
	}
	s.chain(t.newest, t.older, known)
	t.readers(n)
	if t.affected == nil {
		t.affected, t.mark, t.event = make([]int32, ops+1), make([]int32, values), make([]int32, values)
	}
	for _, v := range t.marked {
		t.event[v] = 0
	}
	events := s.walked.events
	t.marked, t.later = t.marked[:0], slices.Grow(t.later[:0], len(events))[:len(events)]
	for k, e := range slices.Backward(events) {
		t.later[k] = t.event[e.value]
		t.event[e.value] = int32(k) + 1
		t.marked = append(t.marked, e.value)
	}
}

// readers is the launches that run again and read each value. There are few, so
// only the lists of values that they read, or those before did, are touched.
func (t *trial) readers(n int) {
	s, r := t.sim, &t.reads
	if r.begin == nil {
		r.begin, r.end = make([]int32, len(s.p.Bytes)), make([]int32, len(s.p.Bytes))
	}
	for _, v := range r.values {
		r.begin[v], r.end[v] = 0, 0
	}
	r.values, r.again = r.values[:0], r.again[:0]
	from := 0
	if s.kept {
		from = s.border.launches
	}
	items := int32(0)
	ops, place := s.ops[from:n], s.place[from:n]
	for k, op := range ops {
		if op == place[k] {
			continue
		}
		r.again = append(r.again, int32(from+k))
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
	for _, k := range r.again {
		for _, v := range s.p.Inputs.Of(s.ops[k]) {
			r.items[r.end[v]] = k
			r.end[v]++
		}
	}
}

// readers is lists of launches by value.
type readers struct {
	begin, end []int32 // by value
	items      []int32
	values     []int32 // whose lists are not empty
	again      []int32 // the launches
}

// of is a value's list.
func (r *readers) of(v int32) []int32 { return r.items[r.begin[v]:r.end[v]] }

// firstRun is the launch at which an operator runs first, the last one of its place.
func (t *trial) firstRun(op int32) int32 { return t.sim.start[op+1] - 1 }

// readsBefore is how many operators that read a value, and how many launches that
// run again and do, come before a launch.
func (t *trial) readsBefore(v, launch int32) (first, again int) {
	first, _ = slices.BinarySearchFunc(t.uses.Of(v), launch, func(op, k int32) int { return cmp.Compare(t.firstRun(op), k) })
	again, _ = slices.BinarySearch(t.reads.of(v), launch)
	return first, again
}

// change is what the prepared plan comes to with one more thing forgotten (or,
// if not more, remembered). It reports false if that takes too many launches, or
// costs as much as most; then bytes are not summed up.
func (t *trial) change(e event, more bool, most float64) bool {
	t.sim.p.poll()
	s := t.sim
	t.launches, t.extra, t.over, t.peak = s.launches, s.extra, s.area, s.peak
	if int(e.at) >= len(s.p.Cost) || e.at < s.p.until(e.value) {
		return t.extra < most
	}
	t.epoch++
	t.tracks, t.segments, t.removed, t.blocks, t.todo, t.lies = t.tracks[:0], t.segments[:0], t.removed[:0], t.blocks[:0], t.todo[:0], t.lies[:0]
	i, there := t.current(e.value, t.sim.start[e.at]), false
	if i >= 0 {
		forgotten := t.forgets(e.value, s.place[s.lives[i].first], e.at)
		there = more && forgotten == 0 || !more && forgotten == 1
	}
	if !there {
		return t.extra < most
	}
	t.place = e.at
	k := t.track(e.value)
	tr := &t.tracks[k]
	tr.present, tr.differs, tr.segment = true, true, t.tell(i)
	if more {
		t.close(tr.segment, t.sim.start[e.at])
		tr.present = false
	}
	t.follow(tr, t.sim.start[e.at])
	for len(t.todo) > 0 {
		t.place = t.todo[0]
		t.todo = t.todo[:copy(t.todo, t.todo[1:])]
		t.again()
		if t.launches > s.most {
			return false
		}
	}
	if t.extra >= most {
		return false
	}
	t.sum()
	return true
}

// current is the newest instance of a value before a launch, forgotten or not;
// −1 if there is none.
func (t *trial) current(v, before int32) int32 {
	i := t.newest[v]
	for i >= 0 && t.sim.lives[i].first >= before {
		i = t.older[i]
	}
	return i
}

// there is the instance of a value at the beginning of the place at hand in the
// prepared plan, −1 if it is forgotten.
func (t *trial) there(v int32) int32 {
	i := t.current(v, t.sim.start[t.place])
	if i >= 0 && t.forgotten(v, t.sim.place[t.sim.lives[i].first], t.place) {
		return -1
	}
	return i
}

// forgotten reports whether a value is forgotten behind a place, up to another.
func (t *trial) forgotten(v, behind, to int32) bool { return t.forgets(v, behind, to) > 0 }

// forgets is how often a value is forgotten behind a place, up to another.
func (t *trial) forgets(v, behind, to int32) (times int) {
	p := &t.sim.walked
	until := t.sim.p.until(v)
	if at := max(t.sim.p.Border, until); p.gone[v] && behind < t.sim.p.Border && at <= to {
		times++
	}
	for k := t.event[v]; k > 0 && p.events[k-1].at <= to; k = t.later[k-1] {
		if at := p.events[k-1].at; at > behind && at >= until {
			times++
		}
	}
	return times
}

// track adds a value.
func (t *trial) track(v int32) int32 {
	k := int32(len(t.tracks))
	t.tracks = append(t.tracks, track{value: v, place: t.place, segment: -1})
	t.mark[v] = k
	return k
}

// touch follows a value up to the place at hand.
func (t *trial) touch(v int32) *track {
	k := t.mark[v]
	known := int(k) < len(t.tracks) && t.tracks[k].value == v
	if known && t.tracks[k].block == len(t.blocks) {
		return &t.tracks[k]
	}
	if !known {
		k = t.track(v)
	}
	t.here = append(t.here, k)
	tr := &t.tracks[k]
	tr.block = len(t.blocks)
	if tr.differs && t.forgotten(v, tr.place, t.place) {
		t.leave(tr)
		tr.differs = false
	}
	if !tr.differs { // it is where it was before the change
		i := t.there(v)
		if tr.present && (i < 0 || t.segments[tr.segment].inst != i) {
			t.leave(tr)
		}
		if i >= 0 && !tr.present {
			tr.present, tr.segment = true, t.tell(i)
		}
	}
	tr.place = t.place
	return tr
}

// leave has a value no longer be there.
func (t *trial) leave(tr *track) {
	if tr.present {
		t.close(tr.segment, t.sim.start[t.place])
		tr.present = false
	}
}

// tell makes a segment of an instance.
func (t *trial) tell(i int32) int32 {
	t.removed = append(t.removed, i)
	at := int64(t.sim.lives[i].first) << step
	t.segments = append(t.segments, segment{t.sim.lives[i].value, i, i, at, at})
	return int32(len(t.segments) - 1)
}

// close ends what a segment takes over of reads, those before a launch being its
// own.
func (t *trial) close(k, before int32) {
	g := &t.segments[k]
	if g.inst >= 0 {
		g.last = max(g.last, t.lastRead(g.inst, before))
		g.inst = -1
	}
}

// lastRead is the position of the last launch before another that reads an
// instance, at a place that is not walked anew, or up to which it stays; 0 if none does.
func (t *trial) lastRead(i, before int32) int64 {
	return max(t.lastReader(i, before), t.stays(i))
}

// stays is the position of the launch up to which an instance stays, whoever reads it; 0 if
// it does not. It has run, or will in the plan that was prepared.
func (t *trial) stays(i int32) int64 {
	s := t.sim
	v := s.lives[i].value
	until := s.p.until(v)
	if until == 0 || s.lives[i].first != t.firstRun(s.maker[v]) {
		return 0
	}
	if t.affected[until-1] == t.epoch {
		for k := range t.blocks {
			if b := &t.blocks[k]; b.to == s.start[until] {
				return int64(b.from)<<step + int64(len(b.ops))
			}
		}
	}
	return int64(t.firstRun(until-1)) << step
}

func (t *trial) lastReader(i, before int32) int64 {
	s := t.sim
	last := s.lives[i].last
	if int(last) == s.launches { // read after the last launch
		if int(before) > s.launches {
			return int64(last) << step
		}
	} else if last < before && t.affected[s.place[last]] != t.epoch {
		return int64(last) << step
	}
	v := s.lives[i].value
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
		if k <= s.lives[i].first {
			break
		}
		if t.affected[s.place[k]] != t.epoch {
			return int64(k) << step
		}
	}
	return 0
}

// follow finds the next place at which a value that differs matters, from a
// launch on.
func (t *trial) follow(tr *track, from int32) {
	next := int32(math.MaxInt32)
	for i := t.newest[tr.value]; i >= 0 && t.sim.lives[i].first >= from; i = t.older[i] {
		next = t.sim.place[t.sim.lives[i].first]
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
	if next == math.MaxInt32 || t.forgotten(tr.value, t.place, next) {
		return
	}
	if j, known := slices.BinarySearch(t.todo, next); !known {
		t.todo = slices.Insert(t.todo, j, next)
	}
}

// again walks the place at hand anew.
func (t *trial) again() {
	s := t.sim
	t.here = t.here[:0]
	t.affected[t.place] = t.epoch
	b := block{from: t.sim.start[t.place], to: t.sim.start[t.place+1]}
	if n := len(t.blocks); n < cap(t.blocks) { // the operators' array is used again
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
	for i := s.made[b.from]; int(i) < s.instances && s.lives[i].first < b.to; i++ {
		t.removed = append(t.removed, i)
	}
	t.launches -= int(b.to - b.from)
	for _, v := range s.p.Inputs.Of(t.place) {
		if !t.touch(v).present {
			t.make(s.maker[v])
		}
	}
	t.launch(t.place)
	t.launches += len(t.blocks[len(t.blocks)-1].ops)
	for _, k := range t.here {
		tr := &t.tracks[k]
		i := t.current(tr.value, b.to)
		if i >= 0 && s.lives[i].first < b.from && t.forgotten(tr.value, s.place[s.lives[i].first], t.place) {
			i = -1
		}
		tr.differs = tr.present != (i >= 0)
		if tr.present && t.segments[tr.segment].inst != i {
			t.close(tr.segment, b.from)
			t.segments[tr.segment].inst = i
		}
		if tr.differs {
			t.follow(tr, b.to)
		}
	}
}

// make runs what makes something that is not there.
func (t *trial) make(op int32) {
	s := t.sim
	for _, v := range s.p.Inputs.Of(op) {
		if !t.touch(v).present {
			t.make(s.maker[v])
		}
	}
	t.extra += s.p.Cost[op]
	t.launch(op)
}

func (t *trial) launch(op int32) {
	s := t.sim
	b := &t.blocks[len(t.blocks)-1]
	at := int64(b.from)<<step + 1 + int64(len(b.ops))
	b.ops = append(b.ops, op)
	for _, v := range s.p.Inputs.Of(op) {
		t.segments[t.touch(v).segment].last = at
	}
	for _, v := range s.p.Over.Of(op) {
		t.lies = append(t.lies, lying{at, t.touch(v).segment, s.p.Bytes[s.p.Outputs.Of(op)[0]]})
	}
	for _, v := range s.p.Outputs.Of(op) {
		tr := t.touch(v)
		k := int32(len(t.segments))
		t.segments = append(t.segments, segment{v, -1, -1, at, at})
		if !(s.p.Held[v] || t.place < s.p.until(v)) || !tr.present {
			if tr.present {
				t.close(tr.segment, b.from)
			}
			tr.present, tr.segment = true, k
		}
	}
}

// sum counts bytes and launches after the change.
func (t *trial) sum() {
	s := t.sim
	t.base, t.news, t.looked = t.base[:0], t.news[:0], t.looked[:0]
	for k := range t.segments {
		t.close(int32(k), math.MaxInt32)
	}
	same := func(g *segment) bool { return g.told >= 0 && g.last == t.end(g.told) }
	for k := range t.segments {
		g := &t.segments[k]
		if same(g) {
			continue
		}
		bytes := s.p.Bytes[g.value]
		t.news = append(t.news, shift{g.first, bytes}, shift{g.last + 1, -bytes})
		t.overlay(g.last, g.value)
	}
	told := 0 // segments made of instances come in the order of those
	for _, i := range t.removed {
		for told < len(t.segments) && t.segments[told].told < 0 {
			told++
		}
		if told < len(t.segments) && t.segments[told].told == i {
			told++
			if same(&t.segments[told-1]) {
				continue
			}
		}
		bytes := s.p.Bytes[s.lives[i].value]
		t.base = append(t.base, shift{int64(s.lives[i].first) << step, -bytes}, shift{int64(s.lives[i].last+1) << step, bytes})
		t.overlay(int64(s.lives[i].last)<<step, s.lives[i].value)
	}
	moved := int64(-1)
	for _, l := range t.lies {
		if l.at != moved && t.segments[l.segment].last == l.at {
			moved = l.at
			t.news = append(t.news, shift{l.at, -l.bytes}, shift{l.at + 1, l.bytes})
		}
	}
	for _, all := range [][]shift{t.base, t.news} {
		slices.SortFunc(all, func(a, b shift) int { return cmp.Compare(a.at, b.at) })
	}
	t.sweep()
}

// end is the position of an instance's last read.
func (t *trial) end(i int32) int64 {
	if last := t.sim.lives[i].last; last > t.sim.lives[i].first {
		if int(last) < t.sim.launches && t.affected[t.sim.place[last]] == t.epoch {
			return -1
		}
		return int64(last) << step
	}
	return int64(t.sim.lives[i].first) << step
}

// overlay looks whether the first output of a launch that is not walked anew
// still lies over a value, or lies over it now.
func (t *trial) overlay(at int64, v int32) {
	s := t.sim
	k := int32(at >> step)
	if at&(1<<step-1) != 0 || int(k) >= s.launches || t.affected[s.place[k]] == t.epoch {
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
		ends := i >= 0 && s.lives[i].last == k
		was = was || ends
		if mark := t.mark[w]; int(mark) < len(t.tracks) && t.tracks[mark].value == w {
			told := slices.Contains(t.removed, i)
			ends = !told && ends
			for j := range t.segments {
				ends = ends || t.segments[j].value == w && t.segments[j].last == at
			}
		}
		is = is || ends
	}
	if bytes := s.p.Bytes[s.p.Outputs.Of(op)[0]]; was != is {
		if was {
			bytes = -bytes
		}
		t.news = append(t.news, shift{at, -bytes}, shift{at + 1, bytes})
	}
}

// sweep goes along the launches.
func (t *trial) sweep() {
	s := t.sim
	t.peak, t.over = 0, 0
	base, news := t.base, t.news
	less, more := int64(0), int64(0)
	until := func(at int64) {
		for len(base) > 0 && base[0].at <= at {
			less += base[0].bytes
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
			if d := less + more; d == 0 {
				t.over += t.area[next] - t.area[k]
				t.peak = max(t.peak, t.highest(k, next))
			} else {
				peak, area := t.moved(k, next, d)
				t.peak, t.over = max(t.peak, peak), t.over+float64(area)
			}
			k = next
		}
	}
	for i := range t.blocks {
		b := &t.blocks[i]
		stretch(b.from)
		raw := t.raw(b.from)
		for j, op := range b.ops {
			// Of what was told before, what is alive at the first launch counts.
			for len(base) > 0 && base[0].at <= int64(b.from)<<step {
				less += base[0].bytes
				base = base[1:]
			}
			for len(news) > 0 && news[0].at <= int64(b.from)<<step+1+int64(j) {
				more += news[0].bytes
				news = news[1:]
			}
			count(raw + less + more + s.p.Work[op])
		}
		k = b.to
	}
	stretch(int32(s.launches))
}

// raw is the bytes of instances alive at a launch.
func (t *trial) raw(k int32) int64 {
	s := t.sim
	bytes := s.live[k] - s.p.Work[s.ops[k]]
	if i, lies := slices.BinarySearchFunc(s.lain, int64(k), func(x shift, k int64) int { return cmp.Compare(x.at, k) }); lies {
		bytes += s.lain[i].bytes
	}
	return bytes
}

// moved is the most bytes alive at launches [from, to), and those over the limit
// summed over them, if at each there are so many more. Of chunks that stay within
// the limit it is enough to know the most.
func (t *trial) moved(from, to int32, more int64) (peak, over int64) {
	limit := t.sim.limit - more
	for from < to {
		if from%chunk == 0 && from+chunk <= to && t.sim.tops[from/chunk] <= limit {
			peak = max(peak, t.sim.tops[from/chunk]+more)
			from += chunk
			continue
		}
		end := min(to, from-from%chunk+chunk)
		for _, alive := range t.sim.live[from:end] {
			over += max(0, alive-limit)
			peak = max(peak, alive+more)
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
