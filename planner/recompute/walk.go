package recompute

// byStretches walks a plan from a place on. It reports false if that takes too many
// launches, and then leaves what it found half done.
func (s *simulator) byStretches(p *plan, from int32) bool {
	ops, border := int32(len(s.p.Cost)), s.p.Border
	clear(s.wanting)
	s.before = s.before[:0]
	events := s.eventsOf(p)
	for _, e := range events {
		before, next := s.around(e.value, e.at)
		s.wanting.add(next)
		s.before = append(s.before, before)
	}
	forgotten := 0 // events
	for op := from; op < ops; {
		if op == border {
			s.cross(p.gone)
		}
		for ; forgotten < len(events) && events[forgotten].at <= op; forgotten++ {
			// What was not made yet when it was forgotten may have been made since.
			if e := events[forgotten]; e.at > s.maker[e.value] && e.at >= s.p.until(e.value) {
				s.forget(e.value, s.before[forgotten])
			}
		}
		begin := s.launches
		w := &s.wires[op]
		for _, v := range s.ends[w.ins:w.over] {
			if s.instance[v] < 0 {
				s.walk(s.maker[v], op)
			}
		}
		next := ops
		if op < border {
			next = border
		}
		next = s.wanting.next(op+1, next)
		s.stretch(op, next)
		s.start[op] = int32(begin)
		if op = next; s.launches > s.most {
			return false
		}
	}
	s.start[ops], s.start[ops+1] = int32(s.launches), int32(s.launches)+1
	return true
}

// cross forgets values at the border.
func (s *simulator) cross(gone []bool) {
	for _, x := range s.across {
		if gone[x.value] {
			s.forget(x.value, x.before)
			s.wanting.add(x.next)
		}
	}
}

// forget forgets a value. before is the place behind the last that reads it before.
func (s *simulator) forget(v, before int32) {
	if i := s.instance[v]; i >= 0 {
		s.lives[i].until, s.instance[v] = max(before, s.p.until(v)), -1
	}
}

// stretch runs the operators of places that want nothing forgotten. Who of them reads
// what is told by until.
func (s *simulator) stretch(from, to int32) {
	n, k, i := int(to-from), s.launches, s.instances
	outputs := s.outputs[s.outOf[from]:s.outOf[to]]
	for k+n > len(s.ops) {
		s.moreLaunches()
	}
	for i+len(outputs) > len(s.lives) {
		s.moreInstances()
	}
	ops, made, place, start, outOf := s.ops[k:][:n], s.made[k:][:n], s.place[k:][:n], s.start[from:][:n], s.outOf[from:][:n]
	launch, makes := int32(k)-from, int32(i)-s.outOf[from] // what comes before, more than in the plain program
	op := from
	for j := range ops {
		ops[j], place[j] = op, op
		made[j], start[j] = outOf[j]+makes, op+launch
		op++
	}
	instance := s.instance
	lives := s.lives[i:][:len(outputs)]
	for j := range outputs {
		x := &outputs[j]
		instance[x.value] = int32(i + j)
		lives[j] = life{x.op + launch, x.op + launch, x.value, x.until}
	}
	if overlay := s.overlay[s.overOf[from]:s.overOf[to]]; len(overlay) > 0 {
		for s.overs+len(overlay) > len(s.over) {
			s.moreOver()
		}
		over := s.over[s.overs:][:len(overlay)]
		for j, x := range overlay {
			over[j] = lies{x.op + launch, instance[x.value], x.bytes}
		}
		s.overs += len(overlay)
	}
	s.launches, s.instances = k+n, i+len(outputs)
}

func (s *simulator) moreLaunches() {
	s.ops, s.made, s.place = grow(s.ops), grow(s.made), grow(s.place)
}

func (s *simulator) moreOver() { s.over = grow(s.over) }

func (s *simulator) moreInstances() { s.lives = grow(s.lives) }

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
	k, lives := s.launches, s.lives
	for j := w.ins; j < w.over; j++ {
		lives[instance[ends[j]]].last = int32(k)
	}
	if k == len(s.ops) {
		s.moreLaunches()
	}
	i := s.instances
	s.ops[k], s.made[k], s.place[k] = op, int32(i), place
	s.launches = k + 1
	for j := w.over; j < w.outs; j++ {
		if s.overs == len(s.over) {
			s.moreOver()
		}
		s.over[s.overs] = lies{int32(k), instance[ends[j]], s.p.Bytes[ends[w.outs]]}
		s.overs++
	}
	for j := w.outs; j < w.end; j++ {
		if i == len(s.lives) {
			s.moreInstances()
		}
		v, until := ends[j], int32(0)
		if s.renew(v, int32(i), place) {
			until = s.lastUse[v]
		}
		s.lives[i] = life{int32(k), int32(k), v, until}
		i++
	}
	s.instances = i
}

// renew has an instance of a value be read from now on, unless that is held, or stays, and
// is there.
func (s *simulator) renew(v, i, place int32) bool {
	if old := s.instance[v]; old >= 0 {
		if s.p.Held[v] || place < s.p.until(v) {
			return false
		}
		before, _ := s.around(v, place) // something else was made again with it
		s.lives[old].until = max(before, s.p.until(v))
	}
	s.instance[v] = i
	return true
}
