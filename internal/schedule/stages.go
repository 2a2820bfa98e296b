package schedule

import (
	"cmp"
	"slices"

	"memopt/internal/graph"
)

// Stage is the part of a step that first touches a range of memory.
type Stage uint8

// The stages. What is loaded is there before the first step: weights, constants and states that have numbers. Inputs
// and activations are there from the first forward pass on, what only backward needs from the first launch of it, and
// optimizer states, which begin as zeros, from the first launch that updates.
const (
	Loading Stage = iota
	ForwardStage
	BackwardStage
	UpdateStage
)

// Segment is a range of a space with the stage that first touches it, and whose memory it is, as tables of phases call
// it. The segments of a space follow each other, and no value lies in two.
type Segment struct {
	Space   Space
	At, End int64
	Stage   Stage
	Owner   string
}

// class is what states have in common that lie together.
type class uint8

const (
	loaded      class = iota // with numbers, or read by a forward pass
	counts                   // single numbers of optimizers, which may be counted up anywhere in the step
	accumulated              // gradients of several runs
	optimized                // states of optimizers
	last                     // those of the class that lies behind all others
)

func (c class) segment() Segment {
	return [...]Segment{
		loaded:      {Space: State, Stage: Loading, Owner: "weights"},
		counts:      {Space: State, Stage: Loading, Owner: "optimizer"},
		accumulated: {Space: State, Stage: BackwardStage, Owner: "gradients"},
		optimized:   {Space: State, Stage: UpdateStage, Owner: "optimizer"},
	}[c]
}

// stateClasses are those of states that begin as zeros.
func stateClasses(g *graph.Graph) map[*graph.Value]class {
	at := map[*graph.Value]class{}
	for _, v := range g.Values {
		if v.Kind == graph.State && v.Data == nil {
			at[v] = optimized // also of those that nothing but an update's copy touches
		}
	}
	if len(at) == 0 {
		return nil
	}
	first := [...]class{graph.Forward: loaded, graph.Backward: accumulated, graph.Updating: optimized}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v == nil {
				continue
			}
			if c, is := at[v]; is {
				at[v] = min(c, first[n.Phase])
			}
		}
	}
	for v, c := range at {
		if c == optimized && v.Rank() == 0 {
			at[v] = counts
		}
	}
	return at
}

// ByStage lists what lies outside the arena: inputs and what has numbers in the graph's order, and then states that
// begin as zeros, by when they are touched. The last value of all states stays behind the others: their space is as
// high in any order then.
func (s *Schedule) ByStage(g *graph.Graph) []*graph.Value {
	s.classes = stateClasses(g)
	var out []*graph.Value
	end := loaded
	for _, v := range g.Values {
		if v.Kind != graph.Computed {
			out = append(out, v)
			if v.Kind != graph.Input {
				end = s.classes[v]
			}
		}
	}
	if len(s.classes) == 0 {
		return out
	}
	rank := func(v *graph.Value) class {
		if c := s.classes[v]; v.Kind == graph.Input || c != end {
			return c
		}
		return last
	}
	slices.SortStableFunc(out, func(a, b *graph.Value) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// Needs is what each launch needs to be there. What is only updated may be wanted before the backward pass is over.
func (s *Schedule) Needs() []Stage {
	updated := s.states()
	updated = slices.DeleteFunc(updated, func(g Segment) bool { return g.Stage != UpdateStage })
	touches := func(refs []Ref) bool {
		return slices.ContainsFunc(refs, func(r Ref) bool {
			return r.Space == State && r.Bytes > 0 && slices.ContainsFunc(updated, func(g Segment) bool { return g.At <= r.Offset && r.Offset < g.End })
		})
	}
	out := make([]Stage, len(s.Launches))
	for i, border := 0, s.BackwardBegin(); i < len(out); i++ {
		out[i] = ForwardStage
		if i >= border {
			out[i] = BackwardStage
		}
		if l := &s.Launches[i]; touches(l.In) || touches(l.Out) {
			out[i] = UpdateStage
		}
	}
	return out
}

// BackwardBegin is the first launch of the backward pass, or the number of launches.
func (s *Schedule) BackwardBegin() int {
	i := slices.IndexFunc(s.Launches, func(l Launch) bool { return l.Node != nil && l.Node.Phase == graph.Backward })
	if i < 0 {
		return len(s.Launches)
	}
	return i
}

// BackwardEnd is the launch behind the last one of the backward pass.
func (s *Schedule) BackwardEnd() int {
	for i := len(s.Launches); i > 0; i-- {
		if n := s.Launches[i-1].Node; n != nil && n.Phase == graph.Backward {
			return i
		}
	}
	return len(s.Launches)
}

// Segments are the spaces by the stage that first touches their bytes. In apart pieces no value and no work space lies
// in two, so that each can be memory of its own; else every byte counts, but for gaps that no page fits in.
func (s *Schedule) Segments(apart bool) []Segment {
	out := append(s.states(), s.arena(apart)...)
	if s.Staging > 0 {
		out = append(out, Segment{Staging, 0, s.Staging, ForwardStage, "staging"})
	}
	return out
}

// states are the segments of the state space.
func (s *Schedule) states() (out []Segment) {
	for _, r := range s.Fixed {
		if r.Space != State {
			continue
		}
		g := s.classes[r.Value].segment()
		n := len(out)
		if n > 0 && out[n-1].Owner == g.Owner && out[n-1].Stage == g.Stage {
			out[n-1].End = max(out[n-1].End, r.Offset+r.Bytes)
			continue
		}
		if g.At, g.End = r.Offset, r.Offset+r.Bytes; n > 0 {
			out[n-1].End = r.Offset // with what lies between
		}
		out = append(out, g)
	}
	if s.Ring > 0 {
		if n := len(out); n > 0 {
			out[n-1].End = s.State - s.Ring
		}
		out = append(out, Segment{State, s.State - s.Ring, s.State, Loading, "optimizer"})
	}
	return out
}

// page is the least gap that counts. What is to be apart is not worth it below leastPiece, nor in more than so many.
const (
	page       = 4096
	leastPiece = 64 << 10
	mostPieces = 16
)

// arena are the segments of the arena.
func (s *Schedule) arena(apart bool) []Segment {
	if s.Arena == 0 {
		return nil
	}
	border := s.BackwardBegin()
	lives := slices.SortedFunc(slices.Values(s.Lives), func(a, b Life) int { return cmp.Compare(a.Offset, b.Offset) })
	// Pieces are told by where they begin; each goes on to the next.
	var out []Segment
	begin := func(at int64, stage Stage) {
		if n := len(out); n == 0 || out[n-1].Stage != stage {
			owner := "activations"
			if stage == BackwardStage {
				owner = "gradients"
			}
			out = append(out, Segment{Arena, at, 0, stage, owner})
		}
	}
	end := int64(0)
	if apart {
		for i := 0; i < len(lives); {
			from, stage := lives[i].Offset, BackwardStage
			for end = lives[i].Offset; i < len(lives) && lives[i].Offset <= max(end-1, from); i++ {
				end = max(end, lives[i].Offset+lives[i].Bytes)
				if int(lives[i].First) < border {
					stage = ForwardStage
				}
			}
			if end-from < max(leastPiece, s.Arena/mostPieces) {
				stage = ForwardStage
			}
			begin(from, stage)
		}
	} else {
		for _, l := range lives {
			if int(l.First) >= border || l.Bytes == 0 {
				continue
			}
			if l.Offset-end >= page {
				begin(end, BackwardStage)
			}
			begin(l.Offset, ForwardStage)
			end = max(end, l.Offset+l.Bytes)
		}
		if s.Arena-end >= page {
			begin(end, BackwardStage)
		}
	}
	if len(out) == 0 {
		begin(0, ForwardStage)
	}
	out[0].At = 0
	for i := range out {
		if out[i].End = s.Arena; i+1 < len(out) {
			out[i].End = out[i+1].At
		}
	}
	return out
}
