package vulkan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"memopt/kernels/vulkan/vk"
	"memopt/memopt/graph"
	"memopt/memopt/weights"
	"memopt/planner"
)

// Place is where an input or an output is bound: an offset into a buffer of the device's context.
type Place struct {
	Buffer *Buffer
	At     int64
}

// Places are those of inputs and outputs, by the names that the graph has for them.
type Places struct{ Inputs, Outputs map[string]Place }

// copied is an input or an output that is copied on the device, as kernels cannot take it where it is bound.
type copied struct {
	value planner.Ref
	place Place
	in    bool
	why   string
}

// Copies says what a run copies from buffers that are bound, or to them, as kernels cannot take it there, and why.
func (d *Device) Copies() (in, out int64, why []string) {
	for _, c := range d.copied {
		if c.in {
			in += c.value.Bytes
		} else {
			out += c.value.Bytes
		}
		why = append(why, fmt.Sprintf("%q is copied on the device: %s", c.value.Value.Name, c.why))
	}
	return in, out, why
}

// placement is a schedule whose launches read inputs and write outputs where they are bound.
type placement struct {
	schedule *planner.Schedule
	inputs   []piece  // of the space of inputs, that lie elsewhere
	results  []piece  // of the space bound
	copied   []copied // on the device
}

// Need is what a schedule takes of the device for its values, and for inputs that are copied to it, where others are bound.
func (c *Context) Need(s *planner.Schedule, p Places) (arena, inputs int64, err error) {
	x, err := c.place(s, p)
	if err != nil {
		return 0, 0, fmt.Errorf("vulkan: %w", err)
	}
	return x.schedule.Arena, x.staging(), nil
}

// staging is the bytes of inputs that are not read where they are bound.
func (x *placement) staging() (n int64) {
	if len(x.inputs) == 0 {
		return x.schedule.Staging
	}
	for _, p := range parts(x.schedule, planner.Staging, x.inputs) {
		if p.block == nil {
			n = lined(n) + p.end - p.at
		}
	}
	return n
}

// lined rounds up to where values begin.
func lined(n int64) int64 { return (n + vk.MaxAlignment - 1) / vk.MaxAlignment * vk.MaxAlignment }

// place has launches read inputs and write outputs where they are bound. What cannot be is copied.
func (c *Context) place(from *planner.Schedule, p Places) (*placement, error) {
	s := *from
	x := &placement{schedule: &s}
	if len(p.Inputs)+len(p.Outputs) == 0 {
		return x, nil
	}
	taken := map[string]bool{}
	var met []extent
	for _, r := range s.Fixed {
		to, is := p.Inputs[r.Value.Name]
		if !is || r.Value.Kind != graph.Input {
			continue
		}
		taken[r.Value.Name] = true
		if err := c.holds(to, r.Bytes); err != nil {
			return nil, fmt.Errorf("input %q: %w", r.Value.Name, err)
		}
		met = append(met, extentOf(to, r.Bytes))
		switch {
		case r.Bytes == 0:
		case to.At%vk.MaxAlignment != 0:
			x.copied = append(x.copied, copied{r, to, true, askew(to)})
		default:
			x.inputs = append(x.inputs, piece{at: r.Offset, end: r.Offset + r.Bytes, block: to.Buffer.block, in: to.At})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Inputs)) {
		if !taken[name] {
			return nil, fmt.Errorf("the schedule has no input %q to bind", name)
		}
	}
	s.Launches, s.Outputs, s.Lives = slices.Clone(s.Launches), slices.Clone(s.Outputs), slices.Clone(s.Lives)
	for _, name := range slices.Sorted(maps.Keys(p.Outputs)) {
		to := p.Outputs[name]
		i := slices.IndexFunc(s.Outputs, func(r planner.Ref) bool { return r.Value.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the schedule has no output %q to bind", name)
		}
		r := s.Outputs[i]
		if err := c.holds(to, r.Bytes); err != nil {
			return nil, fmt.Errorf("output %q: %w", name, err)
		}
		e := extentOf(to, r.Bytes)
		why := ""
		life := lifeOf(&s, r)
		switch {
		case r.Bytes == 0:
			continue
		case e.meets(met):
			why = "it is bound where an input or another output is"
		case life < 0:
			why = "its bytes are an input's, a constant's or another output's"
		case to.At%vk.MaxAlignment != 0:
			why = askew(to)
		case r.Bytes%4 != 0:
			why = fmt.Sprintf("kernels write whole words, and it has %d bytes", r.Bytes)
		}
		if met = append(met, e); why != "" {
			x.copied = append(x.copied, copied{r, to, false, why})
			continue
		}
		x.move(life, to)
	}
	for i, c := range x.copied { // what is copied may lie in what was moved
		if !c.in {
			k := slices.IndexFunc(s.Outputs, func(r planner.Ref) bool { return r.Value == c.value.Value })
			x.copied[i].value = s.Outputs[k]
		}
	}
	if len(x.results) > 0 { // what was highest may be elsewhere now
		s.Arena = 0
		for _, l := range s.Lives {
			s.Arena = max(s.Arena, l.Offset+l.Bytes)
		}
	}
	return x, nil
}

func askew(p Place) string {
	return fmt.Sprintf("it begins %d bytes above a multiple of %d", p.At%vk.MaxAlignment, vk.MaxAlignment)
}

// place is described with Context.place.
func (d *Device) place() error {
	x, err := d.context.place(d.schedule, d.options.Places)
	if err != nil {
		return err
	}
	d.schedule, d.copied, d.bound, d.staging = x.schedule, x.copied, x.inputs, x.staging()
	d.spaces[bound].pieces = x.results
	return nil
}

// holds is an error if a place does not have so many bytes, or is of another context.
func (c *Context) holds(p Place, bytes int64) error {
	switch {
	case p.Buffer == nil:
		return fmt.Errorf("it is bound to no buffer")
	case p.Buffer.context != c:
		return fmt.Errorf("it is bound to a buffer of %s that was opened apart from the session's", p.Buffer.context.name)
	case p.At < 0 || p.At > p.Buffer.bytes || bytes > p.Buffer.bytes-p.At:
		return fmt.Errorf("it takes %d bytes, and the buffer of %d bytes has %d from %d on", bytes, p.Buffer.bytes, max(p.Buffer.bytes-p.At, 0), p.At)
	}
	return nil
}

// extent is memory that a place has: by address where it is the host's, by block and offset elsewhere.
type extent struct {
	block   *vk.Block
	at, end uint64
}

func extentOf(p Place, bytes int64) extent {
	if m := p.Buffer.block.Mapped(); m != nil {
		at := uint64(uintptr(unsafe.Add(m, p.At)))
		return extent{nil, at, at + uint64(bytes)}
	}
	return extent{p.Buffer.block, uint64(p.At), uint64(p.At + bytes)}
}

func (e extent) meets(all []extent) bool {
	return slices.ContainsFunc(all, func(o extent) bool { return e.block == o.block && e.at < o.end && o.at < e.end })
}

// lifeOf is the life of an output, if the output is all of it, or −1.
func lifeOf(s *planner.Schedule, r planner.Ref) int {
	if r.Space != planner.Arena {
		return -1
	}
	return slices.IndexFunc(s.Lives, func(l planner.Life) bool {
		return int(l.Last) >= len(s.Launches) && l.Offset == r.Offset && l.Bytes == r.Bytes
	})
}

// move has launches find what lies in a stretch of the arena, while it lives, at a place.
func (x *placement) move(life int, to Place) {
	l, at := x.schedule.Lives[life], int64(0)
	if n := len(x.results); n > 0 {
		at = lined(x.results[n-1].end)
	}
	x.results = append(x.results, piece{at: at, end: at + l.Bytes, block: to.Buffer.block, in: to.At})
	x.schedule.Lives = slices.Delete(x.schedule.Lives, life, life+1)
	one := func(r planner.Ref) planner.Ref {
		if r.Space == planner.Arena && r.Offset >= l.Offset && r.Offset < l.Offset+l.Bytes && r.Bytes > 0 {
			r.Space, r.Offset = bound, at+r.Offset-l.Offset
		}
		return r
	}
	all := func(refs []planner.Ref) []planner.Ref {
		moved := make([]planner.Ref, len(refs))
		for i, r := range refs {
			moved[i] = one(r)
		}
		return moved
	}
	var launch func(planner.Launch) planner.Launch
	launch = func(x planner.Launch) planner.Launch {
		x.In, x.Out, x.Scratch = all(x.In), all(x.Out), one(x.Scratch)
		x.Parts = slices.Clone(x.Parts)
		for i := range x.Parts {
			x.Parts[i] = launch(x.Parts[i])
		}
		return x
	}
	launches := x.schedule.Launches
	for i := int(l.First); i < min(int(l.Last), len(launches)); i++ {
		launches[i] = launch(launches[i])
	}
	x.schedule.Outputs = all(x.schedule.Outputs)
}

// copyBound copies what kernels cannot read or write where it is bound.
func (d *Device) copyBound(in bool) error {
	for _, c := range d.copied {
		if c.in != in || c.value.Bytes == 0 {
			continue
		}
		b, at := d.spaces[c.value.Space].locate(c.value.Offset)
		command := vk.Command{Kind: vk.Copy, From: b, FromAt: at, To: c.place.Buffer.block, ToAt: c.place.At, Bytes: c.value.Bytes}
		if in {
			command.From, command.FromAt, command.To, command.ToAt = command.To, command.ToAt, command.From, command.FromAt
		}
		if err := d.carry(command); err != nil {
			return fmt.Errorf("%q: %w", c.value.Value.Name, err)
		}
	}
	return nil
}

// sharedWeights are the constants and parameters that other programs of the context have, too.
type sharedWeights struct {
	held  []*weights.Shared[*vk.Block]
	there map[int64]bool // by place: what another program brought
}

// shareable is how large a weight is at least that gets memory of its own, so that others may have it, too: drivers of
// cards round that up.
func (d *Device) shareable() int64 {
	if d.gpu.Physical.Unified() {
		return 4 << 10
	}
	return 64 << 10
}

// weights finds what other programs of the context have of this one's, and makes memory of its own for the rest of what
// could be shared.
func (c *common) weights(d *Device) (all []piece, err error) {
	if d.options.Context == nil {
		return nil, nil
	}
	written := map[int64]bool{}
	for _, l := range d.schedule.Launches {
		for _, r := range l.Out {
			if r.Space == planner.State {
				written[r.Offset] = true
			}
		}
	}
	c.shared.there = map[int64]bool{}
	for _, r := range d.schedule.Fixed {
		if r.Space != planner.State || r.Value.Kind == graph.State || r.Value.Data == nil || written[r.Offset] || r.Bytes < d.shareable() {
			continue
		}
		if d.context.weights.Stats().Blocks >= d.gpu.Physical.MaxAllocations/2 && d.gpu.Physical.MaxAllocations > 0 {
			break // the rest lies together
		}
		x, err := r.Value.Tensor(d.schedule.Binding)
		if err != nil {
			return nil, err
		}
		sum := weights.SumOf(x.Bytes)
		if p, ok := r.Value.Data.(pages); ok {
			p.ReleasePages()
		}
		gpu := d.gpu
		h, made, err := d.context.weights.Hold(sum, r.Bytes, nil, func() (*vk.Block, error) { return gpu.NewBlock(r.Bytes, vk.Near) }, gpu.Free)
		if err != nil {
			return nil, fmt.Errorf("weight %q: %w", r.Value.Name, err)
		}
		c.shared.held = append(c.shared.held, h)
		if !made {
			c.shared.there[r.Offset] = true
		} else {
			d.count("weights", h.Value.Bytes, h.Value.Granted)
		}
		d.memory.Requested += h.Value.Bytes
		d.memory.Granted += h.Value.Granted
		d.memory.own(owners[planner.State], h.Value)
		all = append(all, piece{at: r.Offset, end: r.Offset + r.Bytes, block: h.Value})
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// loaded reports whether another program brought what lies there.
func (s *sharedWeights) loaded(r planner.Ref) bool {
	return r.Space == planner.State && s.there[r.Offset]
}

// drop ends the uses.
func (s *sharedWeights) drop() {
	for _, h := range s.held {
		h.Drop()
	}
	s.held, s.there = nil, nil
}

// SharedWeights is the bytes of weights that other programs have, too.
func (d *Device) SharedWeights() (n int64) {
	for _, h := range d.common.shared.held {
		if h.Users() > 1 {
			n += h.Bytes
		}
	}
	return n
}
