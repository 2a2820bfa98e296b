package vulkan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/weights"
	"memopt/kernels/vulkan/vk"
)

// Place is where an input or output is bound: an offset in a buffer of the device's context.
type Place struct {
	Buffer *Buffer
	At     int64
}

// Places has the places of bound inputs and outputs, by name.
type Places struct{ Inputs, Outputs map[string]Place }

// copied is an input or output that kernels cannot use where it is bound, so it is copied on the device.
type copied struct {
	value schedule.Ref
	place Place
	in    bool
	why   string
}

// Copies returns the bytes that a run copies from and to bound buffers because kernels cannot use them in place, and why.
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

// placement is a schedule rewritten so that launches read inputs and write outputs where they are bound.
type placement struct {
	schedule *schedule.Schedule
	inputs   []piece  // of space Staging, in bound buffers
	results  []piece  // of space bound
	copied   []copied // on the device
}

// Need returns the bytes of the arena, and of inputs that are not bound, that a schedule needs with the given places.
func (c *Context) Need(s *schedule.Schedule, p Places) (arena, inputs int64, err error) {
	x, err := c.place(s, p)
	if err != nil {
		return 0, 0, fmt.Errorf("vulkan: %w", err)
	}
	return x.schedule.Arena, x.staging(), nil
}

// staging is the bytes of inputs that are copied to the device.
func (x *placement) staging() (n int64) {
	if len(x.inputs) == 0 {
		return x.schedule.Staging
	}
	for _, p := range parts(x.schedule, schedule.Staging, x.inputs) {
		if p.block == nil {
			n = lined(n) + p.end - p.at
		}
	}
	return n
}

// lined rounds up to the alignment of values.
func lined(n int64) int64 { return (n + vk.MaxAlignment - 1) / vk.MaxAlignment * vk.MaxAlignment }

// place rewrites launches to read inputs and write outputs where they are bound. Those that kernels cannot use there are
// copied.
func (c *Context) place(from *schedule.Schedule, p Places) (*placement, error) {
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
		i := slices.IndexFunc(s.Outputs, func(r schedule.Ref) bool { return r.Value.Name == name })
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
			why = "its place overlaps that of an input or another output"
		case life < 0:
			why = "it shares memory with an input, a constant or another output"
		case to.At%vk.MaxAlignment != 0:
			why = askew(to)
		case r.Bytes%4 != 0:
			why = fmt.Sprintf("kernels write whole words, but it has %d bytes", r.Bytes)
		}
		if met = append(met, e); why != "" {
			x.copied = append(x.copied, copied{r, to, false, why})
			continue
		}
		x.move(life, to)
	}
	for i, c := range x.copied { // a copied output may lie within one that was moved
		if !c.in {
			k := slices.IndexFunc(s.Outputs, func(r schedule.Ref) bool { return r.Value == c.value.Value })
			x.copied[i].value = s.Outputs[k]
		}
	}
	if len(x.results) > 0 { // bound outputs have left the arena
		s.Arena = 0
		for _, l := range s.Lives {
			s.Arena = max(s.Arena, l.Offset+l.Bytes)
		}
	}
	return x, nil
}

func askew(p Place) string {
	return fmt.Sprintf("its offset is not a multiple of %d (remainder %d)", vk.MaxAlignment, p.At%vk.MaxAlignment)
}

// place applies Context.place to the device's schedule.
func (d *Device) place() error {
	x, err := d.context.place(d.schedule, d.options.Places)
	if err != nil {
		return err
	}
	d.schedule, d.copied, d.bound, d.staging = x.schedule, x.copied, x.inputs, x.staging()
	d.spaces[bound].pieces = x.results
	return nil
}

// holds returns an error if a place does not have enough bytes, or belongs to another context.
func (c *Context) holds(p Place, bytes int64) error {
	switch {
	case p.Buffer == nil:
		return fmt.Errorf("it is bound to no buffer")
	case p.Buffer.context != c:
		return fmt.Errorf("it is bound to a buffer of another device context (%s)", p.Buffer.context.name)
	case p.At < 0 || p.At > p.Buffer.bytes || bytes > p.Buffer.bytes-p.At:
		return fmt.Errorf("it needs %d bytes, but the buffer of %d bytes has only %d from offset %d on", bytes, p.Buffer.bytes, max(p.Buffer.bytes-p.At, 0), p.At)
	}
	return nil
}

// extent is the memory of a place: host addresses if it is mapped, else block and offsets.
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

// lifeOf is the index of an output's live range if the output fills it, else −1.
func lifeOf(s *schedule.Schedule, r schedule.Ref) int {
	if r.Space != schedule.Arena {
		return -1
	}
	return slices.IndexFunc(s.Lives, func(l schedule.Life) bool {
		return int(l.Last) >= len(s.Launches) && l.Offset == r.Offset && l.Bytes == r.Bytes
	})
}

// move relocates a live range of the arena to a place: launches that use it use the place instead.
func (x *placement) move(life int, to Place) {
	l, at := x.schedule.Lives[life], int64(0)
	if n := len(x.results); n > 0 {
		at = lined(x.results[n-1].end)
	}
	x.results = append(x.results, piece{at: at, end: at + l.Bytes, block: to.Buffer.block, in: to.At})
	x.schedule.Lives = slices.Delete(x.schedule.Lives, life, life+1)
	one := func(r schedule.Ref) schedule.Ref {
		if r.Space == schedule.Arena && r.Offset >= l.Offset && r.Offset < l.Offset+l.Bytes && r.Bytes > 0 {
			r.Space, r.Offset = bound, at+r.Offset-l.Offset
		}
		return r
	}
	all := func(refs []schedule.Ref) []schedule.Ref {
		moved := make([]schedule.Ref, len(refs))
		for i, r := range refs {
			moved[i] = one(r)
		}
		return moved
	}
	var launch func(schedule.Launch) schedule.Launch
	launch = func(x schedule.Launch) schedule.Launch {
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

// copyBound copies inputs (in) or outputs that kernels cannot use where they are bound.
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

// sharedWeights has the constants and parameters that are shared with other programs of the context.
type sharedWeights struct {
	held  []*weights.Shared[*vk.Block]
	there map[int64]bool // by offset: loaded by another program
}

// shareable is the least size of a weight that gets a block of its own, so that it can be shared. It is larger on discrete
// GPUs, whose drivers round allocations up.
func (d *Device) shareable() int64 {
	if d.gpu.Physical.Unified() {
		return 4 << 10
	}
	return 64 << 10
}

// weights finds weights that other programs of the context have, too, and allocates blocks for the other shareable ones.
func (c *common) weights(d *Device) (all []piece, err error) {
	if d.options.Context == nil {
		return nil, nil
	}
	written := map[int64]bool{}
	for _, l := range d.schedule.Launches {
		for _, r := range l.Out {
			if r.Space == schedule.State {
				written[r.Offset] = true
			}
		}
	}
	c.shared.there = map[int64]bool{}
	for _, r := range d.schedule.Fixed {
		if r.Space != schedule.State || r.Value.Kind == graph.State || r.Value.Data == nil || written[r.Offset] || r.Bytes < d.shareable() {
			continue
		}
		if d.context.weights.Stats().Blocks >= d.gpu.Physical.MaxAllocations/2 && d.gpu.Physical.MaxAllocations > 0 {
			break // the others go into one block
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
		d.memory.own(owners[schedule.State], h.Value)
		all = append(all, piece{at: r.Offset, end: r.Offset + r.Bytes, block: h.Value})
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// loaded reports whether another program has loaded a weight.
func (s *sharedWeights) loaded(r schedule.Ref) bool {
	return r.Space == schedule.State && s.there[r.Offset]
}

// drop releases the shared weights.
func (s *sharedWeights) drop() {
	for _, h := range s.held {
		h.Drop()
	}
	s.held, s.there = nil, nil
}

// SharedWeights is the bytes of weights that other programs use, too.
func (d *Device) SharedWeights() (n int64) {
	for _, h := range d.common.shared.held {
		if h.Users() > 1 {
			n += h.Bytes
		}
	}
	return n
}
