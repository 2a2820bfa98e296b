package recompute

import "slices"

// event is: before the operator at this place of the order, forget a value.
type event struct{ at, value int32 }

// plan is what is forgotten: values at the border, and events elsewhere, in the
// order of their places. Values that nobody reads behind the border are
// forgotten there too, unless the plan wants them to make others of.
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
type simulator struct {
	p      *Problem
	wires  []wires // by operator
	ends   []int32 // what those tell
	needs  []needs // by operator
	maker  []int32 // by value
	held   []int32 // values
	work   int64   // launches simulated so far
	walks  int
	border mark   // where walks begin whose events are all behind it
	kept   bool   // the arrays still begin with the part before the border
	eager  []bool // by value: forget it after each place behind the border that touches it; nil for none
	most   int    // launches after which a walk is given up

	launches, instances, overs int // how much of the arrays is in use

	ops      []int32 // by launch
	made     []int32 // by launch: the first instance that it makes
	start    []int32 // by place: its first launch; one more at the end
	place    []int32 // by launch: the place of the order at which it happened
	first    []int32 // by instance: its launch
	last     []int32 // by instance: its last reader
	value    []int32 // by instance
	over     []pair  // instances, and what each may lie over
	lain     []shift // launches whose first output lies over something, and its bytes
	instance []int32 // by value: the newest one, −1 if it is forgotten
	live     []int64 // by launch
	forgot   []event // what eager forgot
	whole    bool    // the last walk came to its end
	walked   plan    // and what it was of
	took     int64   // its work

	peak  int64
	worst int32 // launch
	extra float64
	area  float64 // bytes over the limit, summed over launches
	limit int64
}

type pair struct{ out, in int32 }

// wires is where, among the ends, an operator's values stand: read, of which it may
// write over, and written.
type wires struct{ ins, over, outs, end int32 }

// needs is the bytes that an operator writes, and needs as work space.
type needs struct{ out, work int64 }

// mark is the state of a walk at a place.
type mark struct {
	launches, instances, overs int
	instance, last, touched    []int32
	newest, older              []int32 // as a trial has them
}

func newSimulator(p *Problem) *simulator {
	s := &simulator{p: p, maker: makers(p), instance: make([]int32, len(p.Bytes)), most: 1 << 30}
	ops, values := len(p.Cost), len(p.Bytes)
	s.wires, s.needs = make([]wires, ops), make([]needs, ops)
	s.ends = make([]int32, 0, len(p.Inputs.items)+len(p.Over.items)+len(p.Outputs.items))
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
		}
	}
	for v, held := range p.Held {
		if held && s.maker[v] >= 0 {
			s.held = append(s.held, int32(v))
		}
	}
	s.start = make([]int32, ops+1)
	ops, values = ops+ops/2, values+values/2
	s.ops, s.made, s.place = make([]int32, ops), make([]int32, ops), make([]int32, ops)
	s.first, s.last, s.value = make([]int32, values), make([]int32, values), make([]int32, values)
	s.begin()
	for op := range p.Border {
		s.start[op] = int32(s.launches)
		s.walk(op, op)
	}
	touched, newest, older := make([]int32, len(p.Bytes)), make([]int32, len(p.Bytes)), make([]int32, s.instances)
	s.touched(touched, int32(s.launches))
	for v := range newest {
		newest[v] = -1
	}
	s.chain(newest, older, 0)
	s.border = mark{s.launches, s.instances, s.overs, slices.Clone(s.instance), slices.Clone(s.last[:s.instances]), touched, newest, older}
	s.kept = true
	return s
}

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
	for v := range s.instance {
		s.instance[v] = -1
	}
	s.launches, s.instances, s.overs, s.extra = 0, 0, 0, 0
}

// free begins a walk that is of no plan.
func (s *simulator) free(limit int64) {
	s.begin()
	s.limit, s.kept, s.whole = limit, false, false
	s.walks++
}

// run simulates a plan. It reports false if the walk took too many launches.
func (s *simulator) run(p plan, limit int64) bool {
	if s.whole && s.eager == nil && limit == s.limit && p.equal(s.walked) {
		s.work += s.took // as if it were walked again: how far a search comes does not depend on its way
		return true
	}
	s.limit, s.whole = limit, false
	s.walks++
	before := s.work
	from := int32(0)
	plain := len(p.events) == 0 || p.events[0].at >= s.p.Border
	if plain && s.kept {
		from = s.p.Border
		s.launches, s.instances, s.overs = s.border.launches, s.border.instances, s.border.overs
		copy(s.last, s.border.last)
		copy(s.instance, s.border.instance)
		s.extra = 0
	} else {
		s.begin()
	}
	s.kept = plain
	begun := s.launches
	k, events, start := 0, p.events, s.start
	s.forgot = s.forgot[:0]
	ops := int32(len(s.p.Cost))
	for op := from; op < ops; op++ {
		if op == s.p.Border {
			for v, gone := range p.gone {
				if gone {
					s.instance[v] = -1
				}
			}
		}
		for ; k < len(events) && events[k].at <= op; k++ {
			s.instance[events[k].value] = -1
		}
		before := s.launches
		start[op] = int32(before)
		s.walk(op, op)
		if s.eager != nil && op >= s.p.Border && op+1 < ops {
			s.forgetEagerly(op, before)
		}
		if s.launches > s.most {
			s.work += int64(s.launches - begun)
			return false
		}
	}
	s.start[len(s.p.Cost)] = int32(s.launches)
	s.work += int64(s.launches-begun) + int64(s.launches/4)
	s.count()
	if s.whole = s.eager == nil; s.whole {
		s.walked, s.took = plan{append(s.walked.gone[:0], p.gone...), append(s.walked.events[:0], p.events...)}, s.work-before
	}
	return true
}

// forgetEagerly forgets what the launches since before touched.
func (s *simulator) forgetEagerly(op int32, before int) {
	for _, o := range s.ops[before:s.launches] {
		for _, v := range s.p.Inputs.Of(o) {
			s.forgetOne(op, v)
		}
		for _, v := range s.p.Outputs.Of(o) {
			s.forgetOne(op, v)
		}
	}
}

func (s *simulator) forgetOne(op, v int32) {
	if s.eager[v] && s.instance[v] >= 0 {
		s.instance[v] = -1
		s.forgot = append(s.forgot, event{op + 1, v})
	}
}

// walk runs an operator at a place, after what it wants: again, if the place is not
// its own.
func (s *simulator) walk(op, place int32) {
	w, ends, instance := &s.wires[op], s.ends, s.instance // indices are quicker than slices of so few
	for j := w.ins; j < w.over; j++ {
		if v := ends[j]; instance[v] < 0 {
			s.walk(s.maker[v], place)
		}
	}
	if op != place {
		s.extra += s.p.Cost[op]
	}
	k, last := s.launches, s.last
	for j := w.ins; j < w.over; j++ {
		last[instance[ends[j]]] = int32(k)
	}
	if k == len(s.ops) {
		s.ops, s.made, s.place = grow(s.ops), grow(s.made), grow(s.place)
	}
	i := s.instances
	s.ops[k], s.made[k], s.place[k] = op, int32(i), place
	s.launches = k + 1
	for j := w.over; j < w.outs; j++ {
		if s.overs == len(s.over) {
			s.over = append(s.over, make([]pair, len(s.over)+64)...)
		}
		s.over[s.overs] = pair{int32(i), instance[ends[j]]}
		s.overs++
	}
	for j := w.outs; j < w.end; j++ {
		if i == len(s.first) {
			s.first, s.last, s.value = grow(s.first), grow(s.last), grow(s.value)
		}
		v := ends[j]
		if instance[v] < 0 || !s.p.Held[v] {
			instance[v] = int32(i)
		}
		s.first[i], s.last[i], s.value[i] = int32(k), int32(k), v
		i++
	}
	s.instances = i
}

// chain tells, by value, the last instance, of what is held the first, and by
// instance the one of its value before it, −1 for none: of the instances from one on,
// and those before it are known.
func (s *simulator) chain(newest, older []int32, from int) {
	held := s.p.Held
	for i, v := range s.value[from:s.instances] {
		i, before := int32(from+i), newest[v]
		if older[i] = before; before < 0 || !held[v] {
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

func grow(all []int32) []int32 { return append(all, make([]int32, len(all)/2+256)...) }

// count sums up the bytes alive at each launch.
func (s *simulator) count() {
	n := s.launches
	for _, v := range s.held {
		if i := s.instance[v]; i >= 0 {
			s.last[i] = int32(n)
		}
	}
	if cap(s.live) < n+2 {
		s.live = make([]int64, max(n, len(s.ops))+2) // for whatever the launches have room for
	}
	live, bytes := s.live[:n+2], s.p.Bytes // first what dies, by the launch behind it
	clear(live)
	value := s.value[:s.instances]
	last := s.last[:len(value)]
	for i, v := range value {
		live[last[i]+1] -= bytes[v]
	}
	moved := int32(-1)
	s.lain = s.lain[:0]
	for _, o := range s.over[:s.overs] {
		if k := s.first[o.out]; o.out != moved && last[o.in] == k {
			moved = o.out
			b := bytes[value[o.out]]
			live[k] -= b
			live[k+1] += b
			s.lain = append(s.lain, shift{int64(k), b})
		}
	}
	live = live[:n]
	sum, peak, worst, limit, area := int64(0), int64(0), 0, s.limit, 0.0
	all := s.needs
	for k, op := range s.ops[:n] {
		needs := &all[op]
		sum += live[k] + needs.out
		alive := sum + needs.work
		live[k] = alive
		if alive > peak {
			peak, worst = alive, k
		}
		if alive > limit {
			area += float64(alive - limit)
		}
	}
	s.live, s.peak, s.worst, s.area = live, peak, int32(worst), area
}
