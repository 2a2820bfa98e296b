package cpu

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// streams brings states in as their updates come, and takes them out behind those, a piece at a time through a ring. The order
// of pieces is that of the updates, the same in every step, so that pieces come in ahead of their update, as far as there are
// parts for them, while the backward pass still runs.
type streams struct {
	far      Far
	ring     []byte
	pieces   []piece
	of       map[int][2]int // by launch: its pieces, half-open
	in, out  *copier
	ins      []*copying // by piece
	outs     []*copying
	done     int // pieces that are updated
	poisoned bool
	trace    schedule.Moved
}

// piece is elements [lo, hi) of an update's tensors.
type piece struct {
	lo, hi int
	states []part
}

// part is a state's share of a piece: its place in the ring's part, and elsewhere.
type part struct {
	name           string
	at, far, bytes int64
}

// openStreams readies what states of a schedule stream; they stay where a device that this one replaces has them.
func (d *Device) openStreams(s *schedule.Schedule, from *Device) (err error) {
	if s.Elsewhere == 0 {
		return nil
	}
	if d.options.Far == nil || d.options.Given {
		return errors.New("cpu: the plan keeps optimizer states elsewhere, and the device was opened without a place for them")
	}
	t := &streams{ring: d.spaces[schedule.State][s.State-s.Ring : s.State], of: map[int][2]int{},
		poisoned: d.options.Poison, trace: schedule.Moved{Far: s.Elsewhere}}
	d.used[schedule.State] = max(d.used[schedule.State], s.State)
	for i := range s.Launches {
		t.cut(s, i)
	}
	if from != nil && from.streams != nil {
		t.far, from.streams.far = from.streams.far, nil
	} else if t.far, err = d.options.Far(s.Elsewhere); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	t.in, t.out = newCopier(schedule.RingParts, false, &t.trace.Waited), newCopier(schedule.RingParts, false, &t.trace.Waited)
	t.forget()
	d.streams = t
	return nil
}

// cut cuts what launch i updates into pieces.
func (t *streams) cut(s *schedule.Schedule, i int) {
	states := s.Launches[i].Streamed()
	if len(states) == 0 {
		return
	}
	size, begin := int64(1), len(t.pieces)
	for _, r := range states {
		size = max(size, r.Value.Type.Size())
	}
	stride := s.Stride(len(states))
	elements := states[0].Bytes / states[0].Value.Type.Size()
	for lo, step := int64(0), stride/size; lo < elements; lo += step {
		hi := min(lo+step, elements)
		p := piece{lo: int(lo), hi: int(hi)}
		for k, r := range states {
			n := r.Value.Type.Size()
			p.states = append(p.states, part{r.Value.Name, int64(k) * stride, r.Offset + lo*n, (hi - lo) * n})
		}
		t.pieces = append(t.pieces, p)
	}
	t.of[i] = [2]int{begin, len(t.pieces)}
}

// slot is the part of the ring that a piece takes.
func (t *streams) slot(k int) []byte {
	n := len(t.ring) / schedule.RingParts
	return t.ring[k%schedule.RingParts*n:][:n]
}

// begin is called before a step. What came in for a step that made no updates is still right.
func (t *streams) begin() {
	if t == nil {
		return
	}
	if t.trace.Waited, t.trace.Bytes = 0, 0; t.done > 0 {
		t.forget()
	}
	for k := range min(schedule.RingParts, len(t.pieces)) {
		t.bring(k)
	}
}

// forget waits for the copies under way and has the next step begin with the first piece.
func (t *streams) forget() {
	t.settle()
	t.ins, t.outs, t.done = make([]*copying, len(t.pieces)), make([]*copying, len(t.pieces)), 0
}

// settle waits for the copies under way, and returns the first error of one out.
func (t *streams) settle() error {
	if t == nil {
		return nil
	}
	_ = t.in.settle(t.ins)
	return t.out.settle(t.outs)
}

// bring issues the copy of a piece into the ring, behind that of what has its part now.
func (t *streams) bring(k int) {
	if t.ins[k] != nil {
		return
	}
	var before *copying
	if k >= schedule.RingParts {
		before = t.outs[k-schedule.RingParts]
	}
	t.ins[k] = t.in.issue(func() (err error) {
		if before != nil {
			if <-before.over; before.err != nil {
				return before.err
			}
		}
		slot := t.slot(k)
		if t.poisoned {
			poison(slot)
		}
		for _, s := range t.pieces[k].states {
			if _, wrong := t.far.ReadAt(slot[s.at:s.at+s.bytes], s.far); wrong != nil && err == nil {
				err = fmt.Errorf("cpu: bringing in state %q: %w", s.name, wrong)
			}
		}
		return err
	})
}

// take issues the copy of a piece out of the ring.
func (t *streams) take(k int) {
	t.outs[k] = t.out.issue(func() (err error) {
		slot := t.slot(k)
		for _, s := range t.pieces[k].states {
			if _, wrong := t.far.WriteAt(slot[s.at:s.at+s.bytes], s.far); wrong != nil && err == nil {
				err = fmt.Errorf("cpu: taking out state %q: %w", s.name, wrong)
			}
		}
		return err
	})
}

// update runs the update of launch i, piece by piece.
func (t *streams) update(i int, l *launch) error {
	for k := t.of[i][0]; k < t.of[i][1]; k++ {
		if err := t.in.wait(t.ins[k]); err != nil {
			return err
		}
		p := &t.pieces[k]
		call := *l.call
		call.In, call.Out = t.shown(p, k, l.src.In, l.call.In), t.shown(p, k, l.src.Out, l.call.Out)
		l.run(&call)
		for _, s := range p.states {
			t.trace.Bytes += s.bytes
		}
		t.done = k + 1
		if t.take(k); k+schedule.RingParts < len(t.pieces) {
			t.bring(k + schedule.RingParts)
		}
	}
	return nil
}

// shown is the tensors of a call as they are for a piece: of those with as many elements as the states its elements alone.
func (t *streams) shown(p *piece, k int, refs []schedule.Ref, all []*graph.Tensor) []*graph.Tensor {
	out := slices.Clone(all)
	for i, r := range refs {
		switch x := all[i]; {
		case x == nil:
		case r.Space == schedule.Elsewhere:
			s := p.states[slices.IndexFunc(p.states, func(s part) bool { return s.far == r.Offset+int64(p.lo)*x.Type.Size() })]
			out[i] = &graph.Tensor{Type: x.Type, Shape: []int{p.hi - p.lo}, Bytes: t.slot(k)[s.at : s.at+s.bytes : s.at+s.bytes]}
		case x.Len() > 1:
			n := int(x.Type.Size())
			out[i] = &graph.Tensor{Type: x.Type, Shape: []int{p.hi - p.lo}, Bytes: x.Bytes[p.lo*n : p.hi*n : p.hi*n]}
		}
	}
	return out
}

// end waits for what the updates of a step take out.
func (t *streams) end() error {
	if t == nil || t.done == 0 {
		return nil
	}
	for _, x := range t.outs {
		if err := t.out.wait(x); err != nil {
			return err
		}
	}
	t.forget()
	return nil
}

func (t *streams) close() (err error) {
	if t == nil {
		return nil
	}
	t.settle()
	t.in.close()
	t.out.close()
	if t.far != nil {
		err = t.far.Close()
	}
	return err
}

// elsewhere is a reader of a state that streams, or nil.
func (d *Device) elsewhere(name string) *io.SectionReader {
	at, known := d.places[name]
	if !known || at.space != schedule.Elsewhere {
		return nil
	}
	x := d.fixed[name]
	return io.NewSectionReader(d.streams.far, at.offset, int64(x.Len())*x.Type.Size())
}
