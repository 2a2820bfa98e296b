package planner

import (
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Schedule is the plan for a device. It is made of the graph, the steps and the places alone, as Check makes it.
func (p *Plan) Schedule() (*schedule.Schedule, error) {
	f, err := newFacts(p.Graph, p.bound())
	if err != nil {
		return nil, err
	}
	s, l := f.schedule(p)
	s.Launches = make([]schedule.Launch, 0, len(p.Steps)+len(p.Graph.Updates))
	err = l.each(func(_ int, l *schedule.Launch) error {
		s.Launches = append(s.Launches, *l)
		return nil
	})
	s.Lives = l.lives
	return s, err
}

// bound is the plan's request for later work on the plan.
func (p *Plan) bound() Request {
	r := p.Request
	r.Context = p.m.ctx
	return r
}

// launcher makes launches of steps. Lives get the plan's places in the order in which they begin.
type launcher struct {
	*facts
	s       *schedule.Schedule
	steps   []Step
	moves   movesBy
	coming  map[int]int32  // by move: the life that it comes back to
	offsets []int64        // those that are left
	end     int64          // where lives have no places they stand behind each other
	current []int32        // by place: the life that is read; outside the arena the index in outside; −1
	outside []schedule.Ref // the schedule's fixed values, and outputs whose memory is given
	held    []int32
	dies    []*graph.Value
	lives   []schedule.Life
}

// schedule is a plan's schedule without launches, and what makes those. Outputs are known when they are made.
func (f *facts) schedule(p *Plan) (*schedule.Schedule, *launcher) {
	s := &schedule.Schedule{Arena: p.Arena, Binding: f.binding, Shows: f.shows}
	l := &launcher{facts: f, s: s, steps: p.Steps, moves: byLaunch(p.Moves), coming: map[int]int32{}, offsets: p.Offsets, current: slices.Repeat([]int32{-1}, len(f.g.Values)),
		held: f.held(p.Steps), lives: make([]schedule.Life, 0, len(p.Offsets))}
	l.dies = f.dies(p.Steps, l.held)
	s.Moves = make([]schedule.Transfer, len(p.Moves))
	streams := streamedBy(f.g, f.r, f.binding)
	for _, v := range s.ByStage(f.g) {
		height, space := &s.State, schedule.State
		switch {
		case v.Kind == graph.Input:
			height, space = &s.Staging, schedule.Staging
		case streams[v.ID] && f.bytes[v.ID] > 0:
			height, space = &s.Elsewhere, schedule.Elsewhere
		}
		l.current[v.ID] = int32(len(s.Fixed))
		s.Fixed = append(s.Fixed, l.ref(v, space, align(*height)))
		*height = align(*height) + f.bytes[v.ID]
	}
	s.State, s.Ring = withRing(s.State, s.Elsewhere), schedule.RingOf(align(s.Elsewhere))
	l.outside = slices.Clip(s.Fixed)
	for _, v := range f.g.Outputs {
		if p := f.place[v.ID]; f.given[p.ID] && l.current[p.ID] < 0 {
			l.current[p.ID] = int32(len(l.outside))
			l.outside = append(l.outside, l.ref(p, schedule.Given, align(s.Given)))
			s.Given = align(s.Given) + f.bytes[p.ID]
		}
	}
	return s, l
}

// ref is a range of bytes that holds a value: a view may show a part, but is read where the whole is.
func (l *launcher) ref(v *graph.Value, space schedule.Space, offset int64) schedule.Ref {
	return schedule.Ref{Value: v, Space: space, Offset: offset, Bytes: l.bytes[l.place[v.ID].ID], Shape: l.shapes[v.ID]}
}

// refs is where values are.
func (l *launcher) refs(vs []*graph.Value) ([]schedule.Ref, error) {
	out := make([]schedule.Ref, len(vs))
	for i, v := range vs {
		if v == nil {
			continue
		}
		p := l.place[v.ID]
		switch at := l.current[p.ID]; {
		case at < 0:
			return nil, fmt.Errorf("value %q is read before it is made", v.Name)
		case l.arena(p):
			out[i] = l.ref(v, schedule.Arena, l.lives[at].Offset)
		default:
			out[i] = l.ref(v, l.outside[at].Space, l.outside[at].Offset)
		}
	}
	return out, nil
}

// begin is a life that begins at a step.
func (l *launcher) begin(step int, bytes int64) (int32, error) {
	offset := l.end
	switch {
	case l.placed() && len(l.offsets) == 0:
		return 0, fmt.Errorf("step %d makes one more life than have places", step)
	case l.placed():
		if offset, l.offsets = l.offsets[0], l.offsets[1:]; offset < 0 || offset > l.s.Arena-bytes {
			return 0, fmt.Errorf("life %d lies at %d, outside the arena of %d bytes", len(l.lives), offset, l.s.Arena)
		}
	case l.end > math.MaxInt64-align(bytes):
		return 0, fmt.Errorf("up to step %d lives take more than %d bytes", step, int64(math.MaxInt64))
	default:
		l.end += align(bytes)
	}
	l.lives = append(l.lives, schedule.Life{First: int32(step), Last: int32(step) + 1, Offset: offset, Bytes: bytes})
	return int32(len(l.lives) - 1), nil
}

// touch has the lives that places have now last to a step.
func (l *launcher) touch(step int, places []*graph.Value) {
	for _, p := range places {
		if at := l.current[p.ID]; at >= 0 {
			l.lives[at].Last = int32(step) + 1
		}
	}
}

// each makes launches one after another.
func (l *launcher) each(yield func(i int, l *schedule.Launch) error) error {
	ends := map[int32][]*graph.Value{}
	for p, until := range l.until {
		if v := l.g.Values[p]; until >= 0 && l.arena(v) {
			ends[until] = append(ends[until], v)
		}
	}
	for i, st := range l.steps {
		if err := l.moved(i); err != nil {
			return err
		}
		n := l.g.Nodes[st.Node]
		x := schedule.Launch{Node: n, Again: st.Again}
		var err error
		if x.In, err = l.refs(n.Inputs); err != nil {
			return err
		}
		l.touch(i, l.reads[st.Node])
		if err := l.makes(i, &x); err != nil {
			return err
		}
		if !st.Again {
			l.touch(i, ends[st.Node])
		}
		if err := yield(i, &x); err != nil {
			return err
		}
	}
	l.touch(len(l.steps)-1, l.atEnd())
	return l.ends(yield)
}

// makes gives what a step makes its places.
func (l *launcher) makes(step int, x *schedule.Launch) (err error) {
	n, st := x.Node, l.steps[step]
	var before [4]int32
	old := before[:0]
	for _, p := range l.writes[st.Node] {
		old = append(old, l.current[p.ID])
		if over := l.dies[step]; over != nil && p == n.Outputs[0] {
			l.current[p.ID] = l.current[over.ID]
			l.lives[l.current[p.ID]].Last = int32(step) + 1
		} else if l.current[p.ID], err = l.begin(step, l.bytes[p.ID]); err != nil {
			return err
		}
	}
	if x.Out, err = l.refs(n.Outputs); err != nil {
		return err
	}
	for k, p := range l.writes[st.Node] {
		if st.Again && int32(step) < l.held[p.ID] {
			l.current[p.ID] = old[k]
		}
	}
	if bytes := l.scratch[st.Node]; bytes > 0 {
		at, err := l.begin(step, bytes)
		if err != nil {
			return err
		}
		x.Scratch = schedule.Ref{Space: schedule.Arena, Offset: l.lives[at].Offset, Bytes: bytes}
	}
	return nil
}

// atEnd lists the places that are read after the last step.
func (l *launcher) atEnd() (places []*graph.Value) {
	for p, is := range l.lasting {
		if v := l.g.Values[p]; is && l.arena(v) {
			places = append(places, v)
		}
	}
	return places
}

// ends makes the copies that come after the steps, and says where outputs are.
func (l *launcher) ends(yield func(i int, l *schedule.Launch) error) (err error) {
	at := len(l.steps)
	for _, u := range l.g.Updates {
		if l.place[u.New.ID] == l.place[u.State.ID] {
			continue
		}
		x := schedule.Launch{Out: []schedule.Ref{l.s.Fixed[l.current[u.State.ID]]}}
		if x.In, err = l.refs([]*graph.Value{u.New}); err != nil {
			return err
		}
		if err := yield(at, &x); err != nil {
			return err
		}
		at++
	}
	if l.s.Outputs, err = l.refs(l.g.Outputs); err == nil && l.placed() && len(l.offsets) > 0 {
		err = fmt.Errorf("%d places are left that no life has", len(l.offsets))
	}
	return err
}

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }
