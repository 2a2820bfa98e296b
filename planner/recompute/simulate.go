package recompute

import (
	"cmp"
	"slices"
)

// event is: before the operator at this place of the order, forget a value.
type event struct{ at, value int32 }

func (e event) compare(f event) int {
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.value, f.value))
}

// plan is what is forgotten: values at the border, and events elsewhere, in the
// order of their places. Values that nobody reads behind the border are
// forgotten there too, unless the plan wants them to make others of. One that stays
// longer than to the border is forgotten as soon as it may; elsewhere, what stays is not
// forgotten.
type plan struct {
	gone   []bool
	events []event
}

func (p plan) clone() plan {
	return plan{append([]bool(nil), p.gone...), append([]event(nil), p.events...)}
}

func (p plan) equal(q plan) bool {
	return slices.Equal(p.gone, q.gone) && slices.Equal(p.events, q.events)
}

// search is the place of an event in p, or where it would be.
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

// simulator walks plans. What it found last is in its fields.
//
// Between places that want something forgotten nothing has to be looked for: there
// each operator is one launch, and who reads what is known beforehand. So only the
// launches of other places look at what they read.
type simulator struct {
	p       *Problem
	wires   []wires // by operator
	ends    []int32 // what those tell
	needs   []needs // by operator
	uses    Lists   // by value: the operators that read it
	outputs []output
	outOf   []int32   // by operator: its first output; one more at the end
	overlay []overlay // in the order of operators
	overOf  []int32   // by operator: its first of those; one more at the end
	across  []crossing
	lastUse []int32 // by value, as outputs tell it
	maker   []int32 // by value
	late    []event // those that may be gone, but only behind the border
	work    int64   // launches simulated so far
	walks   int
	border  mark // where walks begin whose events are all behind it
	kept    bool // the arrays still begin with the part before the border
	most    int  // launches after which a walk is given up

	launches, instances, overs int // how much of the arrays is in use

	ops      []int32 // by launch
	made     []int32 // by launch: the first instance that it makes
	start    []int32 // by place: its first launch; behind all places the number of launches, and one more for what is held
	place    []int32 // by launch: the place of the order at which it happened
	lives    []life  // by instance
	over     []lies  // in the order of launches
	lain     []shift // launches whose first output lies over something, and its bytes
	instance []int32 // by value: the newest one, −1 if it is forgotten
	none     []int32 // by value: no instance
	live     []int64 // by launch
	tops     []int64 // by chunk of launches: the most of those
	wanting  bitset  // places that read something forgotten
	before   []int32 // by event: the place behind the last that reads its value before it
	events   []event // of a plan, with what is late
	whole    bool    // the last walk came to its end
	walked   plan    // and what it was of
	took     int64   // its work

	peak  int64
	worst int32 // launch
	extra float64
	area  float64 // bytes over the limit, summed over launches
	limit int64
}

// life is where an instance of a value is made and read last. While not all readers are
// in last, until is the place behind the last whose operator reads it.
type life struct{ first, last, value, until int32 }

// lies is a launch whose first output may lie over an instance that it reads.
type lies struct {
	launch, in int32
	bytes      int64
}

// wires is where, among the ends, an operator's values stand: read, of which it may
// write over, and written.
type wires struct{ ins, over, outs, end int32 }

// needs is the bytes that an operator writes, and needs as work space.
type needs struct{ out, work int64 }

// output is a value that an operator writes, and the place behind the last that
// reads it: 0 if none does. What is held is read by what would stand behind all.
type output struct{ value, op, until int32 }

// overlay is what an operator's first output may lie over, and its bytes.
type overlay struct {
	op, value int32
	bytes     int64
}

// crossing is a value that is made before the border, the place behind the last
// before the border that reads it, and the first behind it that does.
type crossing struct{ value, before, next int32 }

// mark is the state of a walk at a place.
type mark struct {
	launches, instances, overs int
	instance, touched          []int32
	lives                      []life
	newest, older              []int32 // as a trial has them
}

func newSimulator(p *Problem) *simulator {
	s := &simulator{p: p, maker: makers(p), instance: make([]int32, len(p.Bytes)), lastUse: make([]int32, len(p.Bytes)), most: 1 << 30}
	ops, values := len(p.Cost), len(p.Bytes)
	s.uses.rebuild(values, func(put func(list, item int32)) {
		for op := range int32(ops) {
			for _, v := range p.Inputs.Of(op) {
				put(v, op)
			}
		}
	})
	s.wires, s.needs = make([]wires, ops), make([]needs, ops)
	s.ends = make([]int32, 0, len(p.Inputs.items)+len(p.Over.items)+len(p.Outputs.items))
	s.outputs, s.overlay = make([]output, 0, len(p.Outputs.items)), make([]overlay, 0, len(p.Over.items))
	across := 0
	for op := range p.Border {
		across += len(p.Outputs.Of(op))
	}
	s.across = make([]crossing, 0, across)
	s.outOf, s.overOf = make([]int32, ops+1), make([]int32, ops+1)
	for op := range int32(ops) {
		w, n := &s.wires[op], &s.needs[op]
		add := func(values []int32) (from int32) {
			from = int32(len(s.ends))
			s.ends = append(s.ends, values...)
			return from
		}
		w.ins, w.over, w.outs = add(p.Inputs.Of(op)), add(p.Over.Of(op)), add(p.Outputs.Of(op))
		w.end = int32(len(s.ends))
		n.work = p.Work[op]
		for _, v := range p.Outputs.Of(op) {
			n.out += p.Bytes[v]
			x := output{v, op, 0}
			if uses := s.uses.Of(v); p.Held[v] {
				x.until = int32(ops) + 1
			} else if len(uses) > 0 {
				x.until = uses[len(uses)-1] + 1
			}
			x.until = max(x.until, p.until(v))
			s.lastUse[v] = x.until
			s.outputs = append(s.outputs, x)
			if op < p.Border {
				if until := p.until(v); until > p.Border {
					s.late = append(s.late, event{until, v})
				} else {
					before, next := s.around(v, p.Border)
					s.across = append(s.across, crossing{v, before, next})
				}
			}
		}
		for _, v := range p.Over.Of(op) {
			s.overlay = append(s.overlay, overlay{op, v, p.Bytes[p.Outputs.Of(op)[0]]})
		}
		s.outOf[op+1], s.overOf[op+1] = int32(len(s.outputs)), int32(len(s.overlay))
	}
	slices.SortFunc(s.late, event.compare)
	s.start, s.wanting = make([]int32, ops+2), newBitset(ops+1)
	ops, values = ops+ops/2, values+values/2
	s.ops, s.made, s.place = make([]int32, ops), make([]int32, ops), make([]int32, ops)
	s.lives, s.over = make([]life, values), make([]lies, len(s.overlay)+len(s.overlay)/2)
	s.none = slices.Repeat([]int32{-1}, len(p.Bytes))
	s.begin()
	s.stretch(0, p.Border)
	for op := range p.Border { // whatever begins there knows all readers so far
		for _, v := range p.Inputs.Of(op) {
			s.lives[s.instance[v]].last = op
		}
	}
	touched, newest, older := make([]int32, len(p.Bytes)), make([]int32, len(p.Bytes)), make([]int32, s.instances)
	s.touched(touched, int32(s.launches))
	for v := range newest {
		newest[v] = -1
	}
	s.chain(newest, older, 0)
	s.border = mark{s.launches, s.instances, s.overs, slices.Clone(s.instance), touched, slices.Clone(s.lives[:s.instances]), newest, older}
	s.kept = true
	return s
}

// around tells of a place before what place the last operator comes that reads a
// value before it, and which reads it next; 0 and one behind all if none does.
func (s *simulator) around(v, place int32) (before, next int32) {
	next = int32(len(s.p.Cost))
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
		before = uses[k-1] + 1
	}
	if k < len(uses) {
		next = uses[k]
	}
	return before, next
}

// fewUses is how many readers of a value are quicker looked at one after another.
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
	copy(s.instance, s.none)
	s.launches, s.instances, s.overs, s.extra = 0, 0, 0, 0
}

// enter begins a walk of a plan at its first place that is not as it always is.
func (s *simulator) enter(p *plan) (place int32) {
	plain := len(p.events) == 0 || p.events[0].at >= s.p.Border
	if plain && s.kept {
		place = s.p.Border
		s.launches, s.instances, s.overs = s.border.launches, s.border.instances, s.border.overs
		copy(s.lives, s.border.lives)
		copy(s.instance, s.border.instance)
		s.extra = 0
	} else {
		s.begin()
	}
	s.kept = plain
	return place
}

// run simulates a plan. It reports false if the walk took too many launches; then what it found is of no use.
func (s *simulator) run(p plan, limit int64) bool {
	s.p.poll()
	if s.whole && p.equal(s.walked) {
		s.work += s.took // as if it were walked again: how far a search comes does not depend on its way
		if limit != s.limit {
			s.limit = limit
			s.walks++
			s.area = s.beyond(limit)
		}
		return true
	}
	s.limit, s.whole = limit, false
	s.walks++
	before := s.work
	from := s.enter(&p)
	begun := s.launches
	ok := s.byStretches(&p, from)
	s.work += int64(s.launches - begun)
	if !ok {
		return false
	}
	s.work += int64(s.launches / 4)
	s.settle()
	s.sum()
	s.whole = true
	s.walked, s.took = plan{append(s.walked.gone[:0], p.gone...), append(s.walked.events[:0], p.events...)}, s.work-before
	return true
}

// chain tells, by value, the last instance, of what is held the first, and by
// instance the one of its value before it, −1 for none: of the instances from one on,
// and those before it are known. Copies of what stays are left out.
func (s *simulator) chain(newest, older []int32, from int) {
	held := s.p.Held
	for i := from; i < s.instances; i++ {
		v := s.lives[i].value
		i, before := int32(i), newest[v]
		if older[i] = before; before < 0 || !held[v] && s.place[s.lives[i].first] >= s.p.until(v) {
			newest[v] = i
		}
	}
}

// touched tells, by value, the last place before a launch that read or made it, −1
// for none.
func (s *simulator) touched(places []int32, before int32) {
	from := int32(0)
	if s.kept && int(before) >= s.border.launches {
		from = int32(s.border.launches)
		copy(places, s.border.touched)
	} else {
		for v := range places {
			places[v] = -1
		}
	}
	for k := from; k < before; k++ {
		w := &s.wires[s.ops[k]]
		for _, v := range s.ends[w.ins:w.end] {
			places[v] = s.place[k]
		}
	}
}

func grow[T any](all []T) []T { return append(all, make([]T, len(all)/2+256)...) }

// deaths makes room for the bytes alive, which begin as what dies, by the launch
// behind it.
func (s *simulator) deaths() []int64 {
	n := s.launches + 2
	if cap(s.live) < n {
		s.live = make([]int64, max(n, len(s.ops)+2)) // for whatever the launches have room for
	}
	s.live = s.live[:n]
	clear(s.live)
	return s.live
}

// settle finds the last readers of a walk by stretches, and what dies where.
func (s *simulator) settle() {
	live, bytes, start := s.deaths(), s.p.Bytes, s.start
	lives := s.lives[:s.instances]
	for i := range lives {
		l := &lives[i]
		behind := max(l.last+1, start[l.until])
		l.last = behind - 1
		live[behind] -= bytes[l.value]
	}
}

// sum adds up the bytes alive at each launch.
func (s *simulator) sum() {
	live, lives := s.live, s.lives
	moved := int32(-1)
	s.lain = s.lain[:0]
	for _, o := range s.over[:s.overs] {
		if k := o.launch; lives[o.in].last == k && k != moved {
			moved = k
			live[k] -= o.bytes
			live[k+1] += o.bytes
			s.lain = append(s.lain, shift{int64(k), o.bytes})
		}
	}
	n := s.launches
	live = live[:n]
	s.live, s.peak, s.worst, s.area, s.tops = live, 0, 0, 0, s.tops[:0]
	sum, limit, needs := int64(0), s.limit, s.needs
	for from := 0; from < n; from += chunk {
		part := live[from:min(from+chunk, n)]
		top := int64(0)
		for k, op := range s.ops[from:][:len(part)] {
			x := &needs[op]
			sum += part[k] + x.out
			alive := sum + x.work
			part[k] = alive
			top = max(top, alive)
		}
		s.tops = append(s.tops, top)
		if top > s.peak {
			s.peak, s.worst = top, int32(from+slices.Index(part, top))
		}
	}
	s.area = s.beyond(limit)
}

// eventsOf are those of a plan, with what is gone behind the border.
func (s *simulator) eventsOf(p *plan) []event {
	if len(s.late) == 0 {
		return p.events
	}
	s.events = append(s.events[:0], p.events...)
	for _, e := range s.late {
		if p.gone[e.value] {
			s.events = append(s.events, e)
		}
	}
	slices.SortFunc(s.events, event.compare)
	return s.events
}

// beyond is the bytes over a limit, summed over the launches.
func (s *simulator) beyond(limit int64) (area float64) {
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
