package recompute

// walk walks a plan from a place on. It reports false if it takes too many launches.
func (s *simulator) walk(p *plan, from int32) bool {
	ops, border := int32(len(s.p.Cost)), s.p.Border
	clear(s.mustLook)
	s.lastBefore = s.lastBefore[:0]
	events := s.eventsOf(p)
	for _, e := range events {
		lastBefore, nextAfter := s.neighbours(e.value, e.at)
		s.mustLook.Add(nextAfter)
		s.lastBefore = append(s.lastBefore, lastBefore)
	}
	dropped := 0 // events
	for op := from; op < ops; {
		if op == border {
			s.crossBorder(p.gone)
		}
		for ; dropped < len(events) && events[dropped].at <= op; dropped++ {
			// The value of an event before its maker does not exist yet.
			if e := events[dropped]; e.at > s.maker[e.value] && e.at >= s.p.until(e.value) {
				s.drop(e.value, s.lastBefore[dropped])
			}
		}
		begin := s.launches
		w := &s.slots[op]
		for _, v := range s.slotValues[w.inputs:w.overlays] {
			if s.current[v] < 0 {
				s.rerun(s.maker[v], op)
			}
		}
		nextAfter := ops
		if op < border {
			nextAfter = border
		}
		nextAfter = s.mustLook.Next(op+1, nextAfter)
		s.runStretch(op, nextAfter)
		s.start[op] = int32(begin)
		if op = nextAfter; s.launches > s.mostLaunches {
			return false
		}
	}
	s.start[ops], s.start[ops+1] = int32(s.launches), int32(s.launches)+1
	return true
}

// crossBorder drops values at the border.
func (s *simulator) crossBorder(gone []bool) {
	for _, x := range s.crossings {
		if gone[x.value] {
			s.drop(x.value, x.lastBefore)
			s.mustLook.Add(x.next)
		}
	}
}

// drop ends the current instance of a value. lastBefore is the place after its last reader before that.
func (s *simulator) drop(v, lastBefore int32) {
	if i := s.current[v]; i >= 0 {
		s.ranges[i].readUntil, s.current[v] = max(lastBefore, s.p.until(v)), -1
	}
}

// runStretch runs the operators of places that read nothing dropped, each once. readUntil tells their readers.
func (s *simulator) runStretch(from, to int32) {
	n, k, i := int(to-from), s.launches, s.instances
	outputs := s.outputs[s.firstOutput[from]:s.firstOutput[to]]
	for k+n > len(s.ops) {
		s.moreLaunches()
	}
	for i+len(outputs) > len(s.ranges) {
		s.ranges = grow(s.ranges)
	}
	ops, firstMade, place, start, outOf := s.ops[k:][:n], s.firstMade[k:][:n], s.place[k:][:n], s.start[from:][:n], s.firstOutput[from:][:n]
	launch, makes := int32(k)-from, int32(i)-s.firstOutput[from] // from numbers of the plain program to those of the walk
	op := from
	for j := range ops {
		ops[j], place[j] = op, op
		firstMade[j], start[j] = outOf[j]+makes, op+launch
		op++
	}
	current := s.current
	ranges := s.ranges[i:][:len(outputs)]
	for j := range outputs {
		x := &outputs[j]
		current[x.value] = int32(i + j)
		ranges[j] = liveRange{x.op + launch, x.op + launch, x.value, x.readUntil}
	}
	if may := s.mayOverlay[s.firstOverlay[from]:s.firstOverlay[to]]; len(may) > 0 {
		for s.overlays+len(may) > len(s.overlaid) {
			s.overlaid = grow(s.overlaid)
		}
		overlaid := s.overlaid[s.overlays:][:len(may)]
		for j, x := range may {
			overlaid[j] = overlay{x.op + launch, current[x.value], x.bytes}
		}
		s.overlays += len(may)
	}
	s.launches, s.instances = k+n, i+len(outputs)
}

func (s *simulator) moreLaunches() {
	s.ops, s.firstMade, s.place = grow(s.ops), grow(s.firstMade), grow(s.place)
}

// rerun runs an operator at a place after its missing inputs. It is the operator's first run if the place is its own.
func (s *simulator) rerun(op, place int32) {
	w, slotValues, current := &s.slots[op], s.slotValues, s.current // indices are faster than short slices
	for j := w.inputs; j < w.overlays; j++ {
		if v := slotValues[j]; current[v] < 0 {
			s.rerun(s.maker[v], place)
		}
	}
	if op != place {
		s.extra += s.p.Cost[op]
	}
	k, ranges := s.launches, s.ranges
	for j := w.inputs; j < w.overlays; j++ {
		ranges[current[slotValues[j]]].last = int32(k)
	}
	if k == len(s.ops) {
		s.moreLaunches()
	}
	i := s.instances
	s.ops[k], s.firstMade[k], s.place[k] = op, int32(i), place
	s.launches = k + 1
	for j := w.overlays; j < w.outputs; j++ {
		if s.overlays == len(s.overlaid) {
			s.overlaid = grow(s.overlaid)
		}
		s.overlaid[s.overlays] = overlay{int32(k), current[slotValues[j]], s.p.Bytes[slotValues[w.outputs]]}
		s.overlays++
	}
	for j := w.outputs; j < w.end; j++ {
		if i == len(s.ranges) {
			s.ranges = grow(s.ranges)
		}
		v, until := slotValues[j], int32(0)
		if s.replaces(v, int32(i), place) {
			until = s.lastUse[v]
		}
		s.ranges[i] = liveRange{int32(k), int32(k), v, until}
		i++
	}
	s.instances = i
}

// replaces makes an instance the current one of its value, unless an older one is held or must be kept and exists. It
// reports whether it did.
func (s *simulator) replaces(v, i, place int32) bool {
	if old := s.current[v]; old >= 0 {
		if s.p.Held[v] || place < s.p.until(v) {
			return false
		}
		lastBefore, _ := s.neighbours(v, place) // its maker was rerun for another output
		s.ranges[old].readUntil = max(lastBefore, s.p.until(v))
	}
	s.current[v] = i
	return true
}
