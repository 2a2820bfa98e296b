package recompute

import (
	"cmp"
	"slices"

	"memopt/planner/internal/numbers"
)

// chunk is how many launches share one top.
const chunk = 64

// event drops a value before the operator of a place runs for the first time.
type event struct{ at, value int32 }

func (e event) compare(f event) int {
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.value, f.value))
}

// plan is what to drop: values at the border, and events elsewhere, in the order of their places. Dropping a value at
// the border has no effect if nothing reads it after the border, unless it is needed to rerun other operators. A value
// with Until after the border is dropped there instead; events before Until have no effect.
type plan struct {
	gone   []bool // by value: dropped at the border
	events []event
}

func (p plan) clone() plan {
	return plan{append([]bool(nil), p.gone...), append([]event(nil), p.events...)}
}

func (p plan) equal(q plan) bool {
	return slices.Equal(p.gone, q.gone) && slices.Equal(p.events, q.events)
}

// search finds an event, or where it would be inserted.
func (p plan) search(e event) (int, bool) {
	from, to := 0, len(p.events)
	for from < to {
		m := (from + to) / 2
		if p.events[m].at < e.at || p.events[m].at == e.at && p.events[m].value < e.value {
			from = m + 1
		} else {
			to = m
		}
	}
	return from, from < len(p.events) && p.events[from] == e
}

// simulator walks plans: it lists their launches, and sums the bytes alive at each. Its fields describe the last walk.
//
// At places where nothing is missing, each operator is one launch, and all readers are known beforehand. Such stretches
// are copied from the order; only places that read a dropped value are looked at (mustLook).
type simulator struct {
	p            *Problem
	slots        []slots // by operator
	slotValues   []int32 // of all slots
	sizes        []size  // by operator
	uses         Lists   // by value: the operators that read it
	outputs      []output
	firstOutput  []int32      // by operator: its first output; one more at the end
	mayOverlay   []mayOverlay // in the order of their operators
	firstOverlay []int32      // by operator: its first one; one more at the end
	crossings    []crossing
	lastUse      []int32  // by value: readUntil of its output
	maker        []int32  // by value
	lateDrops    []event  // of values before the border with Until after it, where they take place if the plan drops them at the border
	work         int64    // launches simulated so far, and what counts as much
	walks        int      // walks so far
	atBorder     snapshot // of the plain program: walks without events before the border begin there
	hasPrefix    bool     // the arrays begin with that part of the plain program
	mostLaunches int      // a walk is given up after so many

	launches, instances, overlays int // lengths of the arrays that are in use

	ops         []int32     // by launch
	firstMade   []int32     // by launch: its first instance
	start       []int32     // by place: its first launch; then the number of launches, and one more, where held values are read
	place       []int32     // by launch: the place at which it runs
	ranges      []liveRange // by instance
	overlaid    []overlay   // in the order of launches
	current     []int32     // by value: its newest instance, −1 if it is missing
	noInstances []int32     // by value: −1
	live        []int64     // by launch: bytes alive
	tops        []int64     // by chunk of launches: the most bytes alive
	mustLook    numbers.Set // places that read a dropped value
	lastBefore  []int32     // by event: the place after the last that reads its value before the event
	merged      []event     // events with those of lateDrops
	complete    bool        // the last walk was not given up
	walked      plan        // the plan of the last walk
	walkedWork  int64       // the work of the last walk

	peak       int64
	peakLaunch int32 // the first launch of that many bytes
	extra      float64
	over       float64 // bytes over the limit, summed over launches
	limit      int64
}

// liveRange is the launches that make an instance of a value and read it last. Readers in stretches are not in last
// yet: readUntil is the place after the last of them.
type liveRange struct{ first, last, value, readUntil int32 }

// overlay is a launch whose first output may lie over an instance that it reads, and the bytes of the output.
type overlay struct {
	launch, over int32
	bytes        int64
}

// slots are where the values of an operator begin among slotValues: its inputs, those that it may write over, and its
// outputs.
type slots struct{ inputs, overlays, outputs, end int32 }

// size is the bytes that an operator writes, and its work space.
type size struct{ outputs, work int64 }

// output is a value that an operator writes, and the place after the last that reads it: 0 if none does, two after the
// last place for a held value.
type output struct{ value, op, readUntil int32 }

// mayOverlay is an input that the first output of an operator may lie over, and the bytes of the output.
type mayOverlay struct {
	op, value int32
	bytes     int64
}

// crossing is a value made before the border, the place after its last reader before the border, and its next reader.
type crossing struct{ value, lastBefore, next int32 }

// snapshot is the state of a walk at a place.
type snapshot struct {
	launches, instances, overlays int
	current, touched              []int32
	ranges                        []liveRange
}

func newSimulator(p *Problem) *simulator {
	s := &simulator{p: p, maker: makers(p), current: make([]int32, len(p.Bytes)), lastUse: make([]int32, len(p.Bytes)), mostLaunches: 1 << 30}
	ops, values := len(p.Cost), len(p.Bytes)
	s.uses.rebuild(values, func(put func(list, item int32)) {
		for op := range int32(ops) {
			for _, v := range p.Inputs.Of(op) {
				put(v, op)
			}
		}
	})
	s.slots, s.sizes = make([]slots, ops), make([]size, ops)
	s.slotValues = make([]int32, 0, len(p.Inputs.items)+len(p.Over.items)+len(p.Outputs.items))
	s.outputs, s.mayOverlay = make([]output, 0, len(p.Outputs.items)), make([]mayOverlay, 0, len(p.Over.items))
	across := 0
	for op := range p.Border {
		across += len(p.Outputs.Of(op))
	}
	s.crossings = make([]crossing, 0, across)
	s.firstOutput, s.firstOverlay = make([]int32, ops+1), make([]int32, ops+1)
	for op := range int32(ops) {
		w, n := &s.slots[op], &s.sizes[op]
		add := func(values []int32) (from int32) {
			from = int32(len(s.slotValues))
			s.slotValues = append(s.slotValues, values...)
			return from
		}
		w.inputs, w.overlays, w.outputs = add(p.Inputs.Of(op)), add(p.Over.Of(op)), add(p.Outputs.Of(op))
		w.end = int32(len(s.slotValues))
		n.work = p.Work[op]
		for _, v := range p.Outputs.Of(op) {
			n.outputs += p.Bytes[v]
			x := output{v, op, 0}
			if uses := s.uses.Of(v); p.Held[v] {
				x.readUntil = int32(ops) + 1
			} else if len(uses) > 0 {
				x.readUntil = uses[len(uses)-1] + 1
			}
			x.readUntil = max(x.readUntil, p.until(v))
			s.lastUse[v] = x.readUntil
			s.outputs = append(s.outputs, x)
			if op < p.Border {
				if until := p.until(v); until > p.Border {
					s.lateDrops = append(s.lateDrops, event{until, v})
				} else {
					before, next := s.neighbours(v, p.Border)
					s.crossings = append(s.crossings, crossing{v, before, next})
				}
			}
		}
		for _, v := range p.Over.Of(op) {
			s.mayOverlay = append(s.mayOverlay, mayOverlay{op, v, p.Bytes[p.Outputs.Of(op)[0]]})
		}
		s.firstOutput[op+1], s.firstOverlay[op+1] = int32(len(s.outputs)), int32(len(s.mayOverlay))
	}
	slices.SortFunc(s.lateDrops, event.compare)
	s.start, s.mustLook = make([]int32, ops+2), numbers.New(ops+1)
	ops, values = ops+ops/2, values+values/2
	s.ops, s.firstMade, s.place = make([]int32, ops), make([]int32, ops), make([]int32, ops)
	s.ranges, s.overlaid = make([]liveRange, values), make([]overlay, len(s.mayOverlay)+len(s.mayOverlay)/2)
	s.noInstances = slices.Repeat([]int32{-1}, len(p.Bytes))
	s.begin()
	s.runStretch(0, p.Border)
	for op := range p.Border { // whatever begins there knows all readers so far
		for _, v := range p.Inputs.Of(op) {
			s.ranges[s.current[v]].last = op
		}
	}
	touched := make([]int32, len(p.Bytes))
	s.touched(touched, int32(s.launches))
	s.atBorder = snapshot{s.launches, s.instances, s.overlays, slices.Clone(s.current), touched, slices.Clone(s.ranges[:s.instances])}
	s.hasPrefix = true
	return s
}

// another is a simulator of the same program, with arrays of its own.
func (s *simulator) another() *simulator {
	t := *s
	t.ops, t.firstMade, t.start, t.place = slices.Clone(s.ops), slices.Clone(s.firstMade), slices.Clone(s.start), slices.Clone(s.place)
	t.ranges, t.overlaid, t.current, t.mustLook = slices.Clone(s.ranges), slices.Clone(s.overlaid), slices.Clone(s.current), slices.Clone(s.mustLook)
	t.live, t.tops, t.lastBefore, t.merged, t.walked, t.complete = nil, nil, nil, nil, plan{}, false
	return &t
}

// neighbours finds the place after the last reader of a value before a place, 0 if there is none, and the next reader,
// the number of operators if there is none.
func (s *simulator) neighbours(v, place int32) (lastBefore, nextAfter int32) {
	nextAfter = int32(len(s.p.Cost))
	uses := s.uses.Of(v)
	k := 0
	if len(uses) > fewUses {
		k, _ = slices.BinarySearch(uses, place)
	} else {
		for k < len(uses) && uses[k] < place {
			k++
		}
	}
	if k > 0 {
		lastBefore = uses[k-1] + 1
	}
	if k < len(uses) {
		nextAfter = uses[k]
	}
	return lastBefore, nextAfter
}

// fewUses is up to how many readers of a value a linear search is faster than a binary one.
const fewUses = 8

// makers is, by value, the operator that writes it, −1 if none does.
func makers(p *Problem) []int32 {
	maker := make([]int32, len(p.Bytes))
	for v := range maker {
		maker[v] = -1
	}
	for op := range int32(len(p.Cost)) {
		for _, v := range p.Outputs.Of(op) {
			maker[v] = op
		}
	}
	return maker
}

func (s *simulator) begin() {
	copy(s.current, s.noInstances)
	s.launches, s.instances, s.overlays, s.extra = 0, 0, 0, 0
}

// enter begins a walk: at the border if the plan has no events before it, as the part before is always the same.
func (s *simulator) enter(p *plan) (place int32) {
	plain := len(p.events) == 0 || p.events[0].at >= s.p.Border
	if plain && s.hasPrefix {
		place = s.p.Border
		s.launches, s.instances, s.overlays = s.atBorder.launches, s.atBorder.instances, s.atBorder.overlays
		copy(s.ranges, s.atBorder.ranges)
		copy(s.current, s.atBorder.current)
		s.extra = 0
	} else {
		s.begin()
	}
	s.hasPrefix = plain
	return place
}

// run walks a plan. It reports false if that takes too many launches; then the fields are of no use. A repeated walk
// returns at once but counts as the same work, so that how far a search gets does not depend on what was walked before.
func (s *simulator) run(p plan, limit int64) bool {
	s.p.poll()
	if s.complete && p.equal(s.walked) {
		s.work += s.walkedWork
		if limit != s.limit {
			s.limit = limit
			s.walks++
			s.over = s.overLimit(limit)
		}
		return true
	}
	s.limit, s.complete = limit, false
	s.walks++
	before := s.work
	from := s.enter(&p)
	begun := s.launches
	ok := s.walk(&p, from)
	s.work += int64(s.launches - begun)
	if !ok {
		return false
	}
	s.work += int64(s.launches / 4)
	s.endRanges()
	s.sum()
	s.complete = true
	s.walked, s.walkedWork = plan{append(s.walked.gone[:0], p.gone...), append(s.walked.events[:0], p.events...)}, s.work-before
	return true
}

// touched fills in, by value, the last place before a launch that read or wrote it, −1 for none.
func (s *simulator) touched(places []int32, before int32) {
	from := int32(0)
	if s.hasPrefix && int(before) >= s.atBorder.launches {
		from = int32(s.atBorder.launches)
		copy(places, s.atBorder.touched)
	} else {
		for v := range places {
			places[v] = -1
		}
	}
	for k := from; k < before; k++ {
		w := &s.slots[s.ops[k]]
		for _, v := range s.slotValues[w.inputs:w.end] {
			places[v] = s.place[k]
		}
	}
}

func grow[T any](all []T) []T { return append(all, make([]T, len(all)/2+256)...) }

// clearLive clears live and makes room for two more than the launches. Until sum, it holds by launch what ends right
// before it.
func (s *simulator) clearLive() []int64 {
	n := s.launches + 2
	if cap(s.live) < n {
		s.live = make([]int64, max(n, len(s.ops)+2)) // for whatever the launches have room for
	}
	s.live = s.live[:n]
	clear(s.live)
	return s.live
}

// endRanges completes the last readers, and notes which instances end where.
func (s *simulator) endRanges() {
	live, bytes, start := s.clearLive(), s.p.Bytes, s.start
	ranges := s.ranges[:s.instances]
	for i := range ranges {
		l := &ranges[i]
		behind := max(l.last+1, start[l.readUntil])
		l.last = behind - 1
		live[behind] -= bytes[l.value]
	}
}

// sum adds up the bytes alive at each launch.
func (s *simulator) sum() {
	live, ranges := s.live, s.ranges
	moved := int32(-1)
	for _, o := range s.overlaid[:s.overlays] {
		if k := o.launch; ranges[o.over].last == k && k != moved {
			moved = k
			live[k] -= o.bytes
			live[k+1] += o.bytes
		}
	}
	n := s.launches
	live = live[:n]
	s.live, s.peak, s.peakLaunch, s.over, s.tops = live, 0, 0, 0, s.tops[:0]
	sum, limit, sizes := int64(0), s.limit, s.sizes
	for from := 0; from < n; from += chunk {
		part := live[from:min(from+chunk, n)]
		top := int64(0)
		for k, op := range s.ops[from:][:len(part)] {
			x := &sizes[op]
			sum += part[k] + x.outputs
			alive := sum + x.work
			part[k] = alive
			top = max(top, alive)
		}
		s.tops = append(s.tops, top)
		if top > s.peak {
			s.peak, s.peakLaunch = top, int32(from+slices.Index(part, top))
		}
	}
	s.over = s.overLimit(limit)
}

// eventsOf are the events of a plan, with those of lateDrops that it has.
func (s *simulator) eventsOf(p *plan) []event {
	if len(s.lateDrops) == 0 {
		return p.events
	}
	s.merged = append(s.merged[:0], p.events...)
	for _, e := range s.lateDrops {
		if p.gone[e.value] {
			s.merged = append(s.merged, e)
		}
	}
	slices.SortFunc(s.merged, event.compare)
	return s.merged
}

// overLimit is the bytes over a limit, summed over the launches.
func (s *simulator) overLimit(limit int64) (area float64) {
	for i, top := range s.tops {
		if top <= limit {
			continue
		}
		for _, alive := range s.live[i*chunk : min((i+1)*chunk, len(s.live))] {
			if alive > limit {
				area += float64(alive - limit)
			}
		}
	}
	return area
}
