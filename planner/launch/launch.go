// Package launch turns what a plan decides into launches for a device.
//
// Everything is worked out from the graph, its shapes and its operators (facts.go), the steps and the places: nothing comes from
// the model that plans are made on. So planner/check can hold plans against their launches, and a device gets the very list that
// was checked.
package launch

import (
	"context"
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/outside"
)

// Step is one launch: a node, for the first time or again.
type Step struct {
	Node  int32 `json:"node"`
	Again bool  `json:"again,omitempty"`
}

// Plan is a graph, and what a plan decides for it.
type Plan struct {
	Graph   *graph.Graph
	Dims    map[string]int64
	Context context.Context // ends the work, which polls it; nil is none
	// Lowered has work space be what kernels need, OutputsGiven outputs be in memory that the caller gives. States is where
	// states lie that stream, "" for in memory; those of so many parameters stay.
	Lowered, OutputsGiven bool
	States                string
	StatesStay            int

	Steps   []Step
	Offsets []int64 // by life, in the order in which these begin
	Arena   int64
	Moves   []outside.Move
}

// Launches is a plan's launches, which follow each other, and its schedule. Which outputs lie where it knows after the last.
type Launches struct {
	Schedule *schedule.Schedule
	Bytes    []int64 // by value
	l        *launcher
}

// Of works out the launches of a plan. Its steps may be anybody's.
func Of(p Plan) (*Launches, error) {
	for i, s := range p.Steps {
		if s.Node < 0 || int(s.Node) >= len(p.Graph.Nodes) || p.Graph.Nodes[s.Node].Op.View {
			return nil, fmt.Errorf("the plan is wrong: step %d names node %d, which cannot be launched", i, s.Node)
		}
	}
	f, err := newFacts(p)
	if err != nil {
		return nil, err
	}
	s, l := f.schedule()
	if !l.placed && len(p.Offsets) > 0 {
		return nil, fmt.Errorf("the plan is wrong: its lives have no places, and it has %d", len(p.Offsets))
	}
	return &Launches{s, f.bytes, l}, nil
}

// Allocated reports whether a graph runs under an allocator of its own, which decides where values lie.
func Allocated(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Recorded, func(r graph.Recorded) bool { return r.Name == graph.Allocator })
}

// Each makes launches one after another, once.
func (x *Launches) Each(yield func(i int, l *schedule.Launch) error) error { return x.l.each(yield) }

// Whole is the schedule with all launches, in the place of Each.
func (x *Launches) Whole() (*schedule.Schedule, error) {
	s := x.Schedule
	s.Launches = make([]schedule.Launch, 0, len(x.l.steps)+len(x.l.g.Updates))
	err := x.l.each(func(_ int, l *schedule.Launch) error {
		s.Launches = append(s.Launches, *l)
		return nil
	})
	s.Lives = x.l.lives
	return s, err
}

// launcher makes launches of steps. Lives get the plan's places in the order in which they begin.
type launcher struct {
	*facts
	placed  bool // lives get places: else the step runs under an allocator of its own
	s       *schedule.Schedule
	steps   []Step
	moves   outside.Launches
	coming  map[int]int32  // by move: the life that it comes back to
	offsets []int64        // those that are left
	end     int64          // where lives have no places they stand behind each other
	current []int32        // by place: the life that is read; outside the arena the index in outside; −1
	outside []schedule.Ref // the schedule's fixed values, and outputs whose memory is given
	held    []int32
	dies    []*graph.Value
	lives   []schedule.Life
}

// schedule is the schedule without launches, and what makes those. Outputs are known when they are made.
func (f *facts) schedule() (*schedule.Schedule, *launcher) {
	p := &f.p
	s := &schedule.Schedule{Arena: p.Arena, Binding: f.binding, Shows: f.shows, Moves: make([]schedule.Transfer, len(p.Moves))}
	l := &launcher{facts: f, placed: !Allocated(f.g), s: s, steps: p.Steps, moves: outside.ByLaunch(p.Moves), coming: map[int]int32{}, offsets: p.Offsets,
		current: slices.Repeat([]int32{-1}, len(f.g.Values)), held: f.held(p.Steps), lives: make([]schedule.Life, 0, len(p.Offsets))}
	l.dies = f.dies(p.Steps, l.held)
	var layout outside.Layout
	streams := outside.Streaming(f.g, f.binding, p.States, p.StatesStay)
	for _, v := range s.ByStage(f.g) {
		space, at := layout.Place(v, f.bytes[v.ID], streams[v.ID])
		l.current[v.ID] = int32(len(s.Fixed))
		s.Fixed = append(s.Fixed, l.ref(v, space, at))
	}
	s.Ring = layout.End()
	s.State, s.Staging, s.Elsewhere = layout.State, layout.Staging, layout.Elsewhere
	l.outside = slices.Clip(s.Fixed)
	for _, v := range f.g.Outputs {
		if p := f.place[v.ID]; f.given[p.ID] && l.current[p.ID] < 0 {
			l.current[p.ID] = int32(len(l.outside))
			l.outside = append(l.outside, l.ref(p, schedule.Given, outside.Align(s.Given)))
			s.Given = outside.Align(s.Given) + f.bytes[p.ID]
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
	case l.placed && len(l.offsets) == 0:
		return 0, fmt.Errorf("step %d makes one more life than have places", step)
	case l.placed:
		if offset, l.offsets = l.offsets[0], l.offsets[1:]; offset < 0 || offset > l.s.Arena-bytes {
			return 0, fmt.Errorf("life %d lies at %d, outside the arena of %d bytes", len(l.lives), offset, l.s.Arena)
		}
	case l.end > math.MaxInt64-outside.Align(bytes):
		return 0, fmt.Errorf("up to step %d lives take more than %d bytes", step, int64(math.MaxInt64))
	default:
		l.end += outside.Align(bytes)
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
	if l.s.Outputs, err = l.refs(l.g.Outputs); err == nil && l.placed && len(l.offsets) > 0 {
		err = fmt.Errorf("%d places are left that no life has", len(l.offsets))
	}
	return err
}

// moved has the launcher know what moves before a step.
func (l *launcher) moved(step int) error {
	if len(l.moves.All) == 0 {
		return nil
	}
	at := int32(step)
	for _, k := range l.moves.Out[at] {
		x := l.moves.All[k]
		v := l.g.ByName(x.Value)
		switch {
		case v == nil || !l.arena(v) || l.place[v.ID] != v:
			return fmt.Errorf("move %d is of %q, which has no place in the arena", k, x.Value)
		case l.lasting[v.ID] || at <= l.held[v.ID]:
			return fmt.Errorf("move %d takes %q away, which is held", k, x.Value)
		case l.current[v.ID] < 0:
			return fmt.Errorf("move %d takes %q away, which is not there", k, x.Value)
		case x.Bytes != l.bytes[v.ID]:
			return fmt.Errorf("move %d takes %d bytes of %q, which has %d", k, x.Bytes, x.Value, l.bytes[v.ID])
		case !(x.Out <= x.Gone && x.Gone < x.In && x.In <= x.Back && int(x.Back) < len(l.steps)) || x.Far < 0:
			return fmt.Errorf("move %d begins at %d, is gone at %d, comes at %d and is back at %d, which is out of order", k, x.Out, x.Gone, x.In, x.Back)
		}
		life := &l.lives[l.current[v.ID]]
		life.Last = max(life.Last, x.Gone)
		l.s.Moves[k] = schedule.Transfer{From: l.ref(v, schedule.Arena, life.Offset), Far: x.Far, Out: x.Out, Gone: x.Gone, In: x.In, Back: x.Back}
		l.current[v.ID] = -1
	}
	for _, k := range l.moves.In[at] {
		x := &l.s.Moves[k]
		if x.From.Value == nil {
			return fmt.Errorf("move %d comes back before it left", k)
		}
		life, err := l.begin(step, x.From.Bytes)
		if err != nil {
			return err
		}
		l.lives[life].Last = x.Back + 1
		x.To = l.ref(x.From.Value, schedule.Arena, l.lives[life].Offset)
		l.coming[k] = life
	}
	for _, k := range l.moves.Back[at] {
		v := l.s.Moves[k].To.Value
		if v == nil {
			return fmt.Errorf("move %d is back before it came", k)
		}
		l.current[v.ID] = l.coming[k]
	}
	return nil
}
