package session

import (
	"context"
	"fmt"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/weights"
	"memopt/planner"
)

// remote runs programs on a device with memory of its own, which Options.Device opens for a schedule.
type remote struct{ *Session }

func (s remote) buffers() Buffers {
	if s.device == nil {
		return hostBuffers{memory(s)} // a dry run
	}
	return s.device
}

func (s remote) direct() bool { return false }

func (s remote) holds(owner string) bool {
	return owner == ownDevice || owner == ownLoaded || owner == ownBuffers
}

func (s remote) reported(owner string) string {
	switch owner {
	case ownDevice, ownLoaded:
		return "" // the device counts these
	case ownWeights, ownComputed, ownResults, ownModel:
		return OwnHost
	}
	return owner
}

func (s remote) keeps(block *weights.Block) bool {
	return block == nil || block.Kind() != weights.KindMapped
}

func (s remote) lent(v *graph.Value, x *graph.Tensor) {
	if v.Data != nil {
		v.Data = graph.Bytes(x.Bytes)
	}
}

func (s remote) plan(ctx context.Context, p *program, dims map[string]int64, fetches []Fetch) (*pattern, error) {
	plan, err := planner.Make(p.g, planner.Request{Dims: dims, Strategy: "keep-all", Lowered: s.options.Lowered, Context: ctx})
	if err != nil {
		return nil, err
	}
	t := &pattern{p: p, bound: plan.Result.Peak}
	if t.schedule, _, err = plan.Chained(); err != nil {
		return nil, err
	}
	t.sized(fetches)
	return t, nil
}

// planned is plans without places, from which patterns are made for places.
func (s remote) planned() *recent[*pattern] { return s.plans }

// mostPatterns is few: each takes memory on the device.
func (s remote) mostPatterns() int { return 8 }

func (s remote) place(x *execution, k int) (Place, error) {
	return x.t.places.Outputs[x.t.results[k].Value.Name], nil
}

func (s remote) takes(x *execution) (stay, pass int64) { return s.grows(x.t, x.fetches), 0 }

func (s remote) memory(x *execution, promised, measured *Memory) {
	promised.Weights, measured.Weights = x.t.state, s.account.Owners()[ownLoaded]
	promised.Values, measured.Values = x.t.height, x.trace.Arena
	promised.Inputs, measured.Inputs = x.t.inputs, x.trace.Staging
}

func (s remote) evict(keep int) bool {
	if s.patterns.len() <= keep {
		return false
	}
	s.patterns.remove(s.patterns.order.Back())
	return true
}

// opened finds or makes the pattern of a plan for given places of inputs and outputs.
func (s *Session) opened(plan *pattern, key string, places Places) (t *pattern, known bool, err error) {
	key += places.key()
	if t, ok := s.patterns.get(key); ok {
		return t, true, nil
	}
	x := *plan
	t = &x
	if t.places = places; len(places.Inputs)+len(places.Outputs) > 0 {
		if t.height, t.inputs, err = s.device.Need(t.schedule, places); err != nil {
			return nil, false, err
		}
	}
	with, weights, err := s.roomOnDevice(t)
	if err != nil {
		return nil, false, err
	}
	own := t.block.bytes
	if t.block.users > 1 {
		own = 0 // the block exists
	}
	s.begin(WeighStage, func() (int64, int64) { return -t.inputs - own, 0 })
	if t.device, err = s.options.Device(s.device, t.schedule, with, own, places, func() { s.begin(BindStage, nil) }); err != nil {
		s.leaveDevice(t)
		s.account.Give(ownLoaded, weights)
		return nil, false, err
	}
	places.each(s.pin)
	t.p.roots++
	for e := s.patterns.order.Back(); e != nil && own > 0 && s.options.Arena.Strategy == arena.Planned; { // drop smaller blocks
		next := e.Prev()
		if o := e.Value.(*entry[*pattern]).value; o.p == t.p && o.block.bytes < t.block.bytes {
			s.patterns.remove(e)
		}
		e = next
	}
	s.patterns.put(key, t)
	return t, false, nil
}

func (s remote) open(plan *pattern, _ bool, fetches []Fetch, inputs map[string]Place) (*pattern, bool, error) {
	if s.options.Watch.Begin != nil {
		if n := s.grows(plan, fetches); n > 0 {
			s.begin(OutputStage, func() (int64, int64) { return n, 0 })
		}
	}
	places, err := plan.placesOf(s.Session, inputs, fetches)
	if err != nil {
		return nil, false, err
	}
	t, known, err := s.opened(plan, plan.key, places)
	if known {
		s.Session.stats.hits++
	} else if err == nil {
		s.Session.stats.misses++
	}
	return t, known, err
}

func (s remote) run(x *execution) error {
	s.begin(RunStage, func() (int64, int64) { return s.takes(x) })
	if err := x.find(); err != nil || s.options.dry {
		return err
	}
	same := map[string]bool{}
	for _, v := range x.t.p.g.Inputs {
		if _, bound := x.t.places.Inputs[v.Name]; bound {
			continue
		}
		if same[v.Name] = x.same[v.Name] && x.t.fed[v.Name]; !same[v.Name] {
			x.r.CopiedIn += int64(len(x.in[v.Name].Bytes))
		}
	}
	x.t.fed = nil // unknown until the run has succeeded
	var err error
	if x.trace, err = x.t.device.Run(schedule.Run{Inputs: x.in, Same: same, Seed: s.options.Seed, Step: s.runs}); err != nil {
		return err
	}
	x.t.fed = map[string]bool{}
	for _, v := range x.t.p.g.Inputs {
		x.t.fed[v.Name] = true
	}
	if d, is := x.t.device.(interface {
		Copies() (in, out int64, why []string)
	}); is {
		in, out, why := d.Copies()
		x.r.CopiedIn, x.r.CopiedOut, x.r.Copies = x.r.CopiedIn+in, x.r.CopiedOut+out, why
	}
	for k, r := range x.t.results {
		if x.fetches[k].OnDevice || x.fetches[k].buffered() {
			continue
		}
		w := &into{x.places[k]}
		if err := x.t.device.WriteOutput(w, r.Value.Name); err != nil {
			return err
		}
		if len(w.rest) > 0 {
			return fmt.Errorf("output %q is %d bytes short", x.fetches[k].Name, len(w.rest))
		}
		x.r.CopiedOut += int64(len(x.places[k]))
	}
	return nil
}

func (s remote) shrink() int64 {
	before, _ := s.account.Held()
	s.tidy()
	for s.patterns.len() > 1 {
		s.patterns.remove(s.patterns.order.Back())
	}
	s.grow = s.options.Arena.InitialGrowthBytes
	after, _ := s.account.Held()
	return before - after + s.arena.Shrink()
}

// stats adds memory on the device.
func (s remote) stats(a arena.Stats) arena.Stats {
	seen := map[*block]bool{}
	for e := s.patterns.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*entry[*pattern]).value
		if !seen[t.block] {
			a.TotalAllocated += t.block.bytes
			seen[t.block] = true
		}
		a.TotalAllocated += t.inputs
	}
	a.MaxTotalAllocated = max(a.MaxTotalAllocated, a.TotalAllocated)
	a.NumArenaExtensions += s.extensions
	return a
}

// placesOf collects the places of a run's inputs and outputs. Inputs that the graph does not have
// are left out.
func (t *pattern) placesOf(s *Session, inputs map[string]Place, fetches []Fetch) (places Places, err error) {
	for _, v := range t.p.g.Inputs {
		if p, is := inputs[v.Name]; is && !onHost(p.Buffer) {
			if places.Inputs == nil {
				places.Inputs = map[string]Place{}
			}
			places.Inputs[v.Name] = p
		}
	}
	for k, f := range fetches {
		if !f.buffered() {
			continue
		}
		v := t.results[k].Value
		p, err := f.place(s, t.tensor(k))
		if err != nil {
			return places, err
		}
		if places.Outputs == nil {
			places.Outputs = map[string]Place{}
		}
		if _, twice := places.Outputs[v.Name]; twice {
			return places, fmt.Errorf("output %q is the same value as another output, and both are bound to buffers; bind one of them", f.Name)
		}
		places.Outputs[v.Name] = p
	}
	return places, nil
}

// block is memory of a device for the values of a program's patterns, one pattern at a time.
type block struct {
	bytes int64
	users int
}

// roomOnDevice enters a pattern's memory on the account: its inputs, a block for its values unless
// there is one of sufficient size, and the weights unless another pattern has them. If needed, the
// least recently used patterns are dropped.
func (s *Session) roomOnDevice(t *pattern) (with Device, weights int64, err error) {
	exact := false
	for {
		with, t.block = s.deviceOf(t.p, t.height)
		need, grow, then := t.inputs, int64(0), s.grow
		if t.block == nil {
			if grow, then = s.options.Arena.Region(s.grow, t.height); exact {
				grow = t.height
			}
			need += grow
		}
		if weights = 0; t.p.roots == 0 {
			weights = t.state
		}
		if err = s.account.Take(ownDevice, need); err == nil {
			if err = s.account.Take(ownLoaded, weights); err == nil {
				if t.block == nil {
					t.block = &block{bytes: grow}
					s.grow = then
					s.extensions++
				}
				t.block.users++
				return with, weights, nil
			}
			s.account.Give(ownDevice, need)
		}
		switch {
		case grow > t.height && !exact:
			exact = true
		case s.patterns.len() > 0:
			s.patterns.remove(s.patterns.order.Back())
		default:
			return nil, 0, err
		}
	}
}

// leaveDevice removes a pattern's memory from the account.
func (s *Session) leaveDevice(t *pattern) {
	s.account.Give(ownDevice, t.inputs)
	if t.block.users--; t.block.users == 0 {
		s.account.Give(ownDevice, t.block.bytes)
	}
}

// deviceOf is a device with the program's weights, and its smallest sufficient block; nil if there
// is none.
func (s *Session) deviceOf(p *program, height int64) (d Device, b *block) {
	for e := s.patterns.order.Front(); e != nil; e = e.Next() {
		t := e.Value.(*entry[*pattern]).value
		if t.p != p || t.device == nil {
			continue
		}
		if fits := t.block.bytes >= height; fits && (b == nil || t.block.bytes < b.bytes) {
			d, b = t.device, t.block
		}
		if d == nil {
			d = t.device
		}
	}
	return d, b
}

// into writes to a slice.
type into struct{ rest []byte }

func (w *into) Write(p []byte) (int, error) {
	if len(p) > len(w.rest) {
		return 0, fmt.Errorf("%d bytes do not fit", len(p))
	}
	n := copy(w.rest, p)
	w.rest = w.rest[n:]
	return n, nil
}
