package vulkan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// space is a space of the schedule on the device: one block, or several if it exceeds the
// largest allocation, split where no value crosses. Bound values and shared weights lie in other
// blocks.
type space struct {
	pieces []piece     // sorted by offset
	own    []*vk.Block // blocks that are freed with the space
	used   int64       // end of the last byte that launches access
}

// ErrHost is the error if there is too little of the host's memory for what moves there.
var ErrHost = errors.New("the device cannot use enough of the host's memory")

// placeOf is the kind of memory of a space.
func placeOf(i schedule.Space) vk.Place {
	if i == away || i == schedule.Elsewhere {
		return vk.Host
	}
	return vk.Near
}

// piece is a range of a space in one block.
type piece struct {
	at, end int64
	block   *vk.Block
	in      int64          // offset in the block
	stage   schedule.Stage // of a step, at which the block is allocated
}

// bound is the space of bound outputs.
const bound = schedule.Given

const spaces = away + 1

// span is a range of a space.
type span struct {
	space   schedule.Space
	at, end int64
}

func spanOf(r schedule.Ref) span { return span{r.Space, r.Offset, r.Offset + r.Bytes} }

// blockLimit is the largest size of a block.
func blockLimit(p *vk.Physical) int64 { return int64(min(p.MaxAllocation, 1<<62)) }

// cuts splits [0, height) into as few pieces of at most limit bytes as possible, at offsets that no
// span crosses.
func cuts(spans []span, height, limit int64) ([]int64, error) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	var places []int64 // offsets where a piece may end
	end := int64(0)
	for _, s := range spans {
		if s.at >= end && s.at > 0 && s.at%vk.MaxAlignment == 0 {
			places = append(places, s.at)
		}
		end = max(end, s.end)
	}
	starts := []int64{0}
	for {
		from := starts[len(starts)-1]
		if height-from <= limit {
			return starts, nil
		}
		next := from
		for _, at := range places {
			if at > from && at-from <= limit {
				next = at
			}
		}
		if next == from {
			return nil, fmt.Errorf("values from offset %d on cannot be split, and exceed the device's largest allocation of %d bytes", from, limit)
		}
		starts = append(starts, next)
	}
}

// locate returns the block of an offset, and the offset in it.
func (s *space) locate(at int64) (*vk.Block, int64) {
	i, found := slices.BinarySearchFunc(s.pieces, at, func(p piece, at int64) int { return cmp.Compare(p.at, at) })
	if !found {
		i--
	}
	p := s.pieces[i]
	return p.block, p.in + at - p.at
}

// host is the mapped memory of a span, or nil if it is not host-visible.
func (d *Device) host(s span) []byte {
	if s.end == s.at {
		return []byte{}
	}
	b, at := d.spaces[s.space].locate(s.at)
	if b.Mapped() == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(b.Mapped(), at)), s.end-s.at)
}

// allocate makes the blocks of weights and of staging. The others are allocated after the weights are loaded, when memory
// that only loading needs has been freed.
func (d *Device) allocate() error {
	s := d.schedule
	note := func(refs ...schedule.Ref) {
		for _, r := range refs {
			if r.Bytes > 0 {
				d.spans[r.Space] = append(d.spans[r.Space], spanOf(r))
			}
		}
	}
	note(s.Fixed...)
	for _, l := range s.Launches {
		note(l.In...)
		note(l.Out...)
		note(l.Scratch)
	}
	d.planMoves()
	if s.Ring > 0 {
		d.spans[schedule.State] = append(d.spans[schedule.State], d.ring())
		d.spaces[schedule.State].used = s.State
	}
	need := d.staging
	first := d.spaces[schedule.State].pieces == nil
	if first {
		need += s.State
	}
	if d.spaces[schedule.Arena].pieces == nil {
		need += max(s.Arena, d.options.Arena)
	}
	if err := d.enough(need); err != nil {
		return err
	}
	if first {
		theirs, err := d.common.weights(d)
		if err != nil {
			return err
		}
		if err := d.allocateSpace(schedule.State, s.State, theirs); err != nil {
			return err
		}
		if s.Elsewhere > 0 {
			if err := d.allocateSpace(schedule.Elsewhere, s.Elsewhere, nil); err != nil {
				return err
			}
		}
	}
	var err error
	if d.run, err = d.gpu.NewBlock(3*vk.MaxAlignment, vk.Host); err != nil {
		return err
	}
	if !d.gpu.Physical.Unified() || d.gpu.Hidden {
		if d.bounce, err = d.gpu.NewBlock(bounceBytes, vk.Host); err != nil {
			return err
		}
	}
	d.tookBeside("other", d.run)
	if d.bounce != nil {
		d.tookBeside("bounce", d.bounce)
	}
	return nil
}

// allocateRest makes the blocks of activations and inputs.
func (d *Device) allocateRest() error {
	d.stages.now = max(d.stages.now, schedule.ForwardStage)
	if d.spaces[schedule.Arena].pieces == nil {
		if err := d.allocateSpace(schedule.Arena, d.schedule.Arena, nil); err != nil {
			return err
		}
	}
	if err := d.allocateSpace(schedule.Staging, d.schedule.Staging, d.bound); err != nil {
		return err
	}
	if height := d.schedule.Far(); height > 0 {
		if err := d.allocateSpace(away, height, nil); err != nil {
			return err
		}
	}
	d.spans = [spaces][]span{}
	if b := d.spaces[schedule.Arena].own; len(b) != 1 || d.common.arenas[b[0]] == 1 { // else it may hold results of another device
		if err := d.fill(schedule.Arena); err != nil {
			return err
		}
	}
	return d.fill(schedule.Staging)
}

// allocateSpace makes the blocks of one space, except for pieces that lie elsewhere.
func (d *Device) allocateSpace(i schedule.Space, height int64, elsewhere []piece) error {
	limit := blockLimit(d.gpu.Physical)
	to := &d.spaces[i]
	if len(elsewhere) == 0 {
		for _, g := range d.stagesOf(i, height) {
			var inside []span
			for _, s := range d.spans[i] {
				if s.at >= g.At && s.end <= g.End {
					inside = append(inside, span{s.space, s.at - g.At, s.end - g.At})
				}
			}
			starts, err := cuts(inside, g.End-g.At, limit)
			if err != nil {
				return fmt.Errorf("%w: %s: %w", vk.ErrDeviceMemory, owners[i], err)
			}
			for k, from := range starts {
				p := piece{at: g.At + from, end: g.End, stage: g.Stage}
				if k+1 < len(starts) {
					p.end = g.At + starts[k+1]
				}
				to.pieces = append(to.pieces, p)
			}
		}
	} else {
		to.pieces = parts(d.schedule, i, elsewhere)
	}
	// Pieces without a block are placed side by side in new ones.
	for k := 0; k < len(to.pieces); {
		bytes, n := int64(0), 0
		var mine []*piece
		for ; k+n < len(to.pieces); n++ {
			p := &to.pieces[k+n]
			if p.block != nil {
				continue
			}
			at := lined(bytes)
			if len(mine) > 0 && at+p.end-p.at > limit {
				break
			}
			p.in, bytes, mine = at, at+p.end-p.at, append(mine, p)
			if len(elsewhere) == 0 { // each piece of cuts gets its own block
				n++
				break
			}
		}
		if k += n; len(mine) == 0 {
			break
		}
		if i == schedule.Arena && len(to.pieces) == 1 {
			bytes = max(bytes, min(d.options.Arena, limit))
		}
		b := &vk.Block{Bytes: bytes}
		if at, end := mine[0].at, mine[len(mine)-1].end; mine[0].stage > d.stages.now {
			d.stages.later = append(d.stages.later, laterBlock{b, i, at, end, mine[0].stage})
		} else {
			var err error
			switch b, err = d.gpu.NewBlock(bytes, placeOf(i)); {
			case err != nil && placeOf(i) == vk.Host:
				return fmt.Errorf("%w for %d bytes of %s: %v", ErrHost, height, owners[i], err)
			case err != nil:
				return fmt.Errorf("%s of %d bytes: %w%s", i, height, err, d.largest())
			}
			d.took(i, b, at, end)
		}
		for _, p := range mine {
			p.block = b
		}
		to.own = append(to.own, b)
		if i == schedule.Arena {
			d.common.arenas[b]++
		}
	}
	return nil
}

// parts returns a piece for each fixed value of the schedule in a space.
func parts(s *schedule.Schedule, i schedule.Space, elsewhere []piece) (all []piece) {
	for _, r := range s.Fixed {
		if r.Space != i || r.Bytes == 0 {
			continue
		}
		p := piece{at: r.Offset, end: r.Offset + r.Bytes}
		if k := slices.IndexFunc(elsewhere, func(o piece) bool { return o.at == p.at && o.end == p.end }); k >= 0 {
			p = elsewhere[k]
		}
		all = append(all, p)
	}
	if i == schedule.State && s.Ring > 0 {
		all = append(all, piece{at: s.State - s.Ring, end: s.State})
	}
	slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	return all
}

// fill fills a space with zeros, or in poison mode the arena with NaN.
func (d *Device) fill(i schedule.Space) error {
	with := uint32(0)
	if d.options.Poison && i == schedule.Arena {
		with = math.MaxUint32
	}
	for _, b := range d.spaces[i].own {
		if d.waits(b) {
			continue
		}
		if err := d.fillWith(b, with); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) fillWith(b *vk.Block, with uint32) error {
	return d.carry(vk.Command{Kind: vk.Fill, To: b, Bytes: vk.WholeWords(max(b.Bytes, 1)), Value: with})
}

// enough returns an error if a plan needs more than the device's memory, or more than the driver's
// budget for this process: some drivers allocate more than there is and lose the device later.
func (d *Device) enough(need int64) error {
	heap := d.gpu.Heap(vk.Near)
	has, whose := heap.Size, "in total"
	if left := heap.Budget - min(heap.Budget, heap.Usage); heap.Budget > 0 && left < has {
		has, whose = left, "left for this process"
	}
	if uint64(need) <= has {
		return nil
	}
	return fmt.Errorf("%w: the plan needs %d bytes, but the device has %d %s%s", vk.ErrDeviceMemory, need, has, whose, d.largest())
}

// largest names the largest value of the schedule, for error messages.
func (d *Device) largest() string {
	var most schedule.Ref
	for _, r := range d.schedule.Fixed {
		if r.Bytes > most.Bytes {
			most = r
		}
	}
	by := ""
	for _, l := range d.schedule.Launches {
		for _, r := range l.Out {
			if r.Value != nil && r.Bytes > most.Bytes {
				most = r
				if by = ""; l.Node != nil {
					by = fmt.Sprintf(", written by node %q", l.Node.Name)
				}
			}
		}
	}
	if most.Value == nil {
		return ""
	}
	return fmt.Sprintf("; its largest value is %s%v of %d bytes%s", most.Value.Name, most.Shape, most.Bytes, by)
}

// Owned is the memory of blocks with one purpose.
type Owned struct {
	Owner     string `json:"owner"`
	Requested int64  `json:"requested"`
	Granted   int64  `json:"granted"`
}

// owners are the names of the spaces in reports.
var owners = [...]string{schedule.Arena: "arena", schedule.State: "parameters and states", schedule.Staging: "inputs", bound: "bound results",
	schedule.Elsewhere: "states on the host", away: "values moved to the host"}

const ownersBeside = "beside the plan"

// own counts a block. Owners are sorted like the spaces.
func (m *Memory) own(owner string, b *vk.Block) {
	rank := func(owner string) int { // memory outside of the plan comes last
		if i := slices.Index(owners[:], owner); i >= 0 {
			return i
		}
		return len(owners)
	}
	i, known := slices.BinarySearchFunc(m.Owners, owner, func(o Owned, owner string) int { return cmp.Compare(rank(o.Owner), rank(owner)) })
	if !known {
		m.Owners = slices.Insert(m.Owners, i, Owned{Owner: owner})
	}
	o := &m.Owners[i]
	o.Requested += b.Bytes
	o.Granted += b.Granted
}

// Memory is the memory of a device, in bytes.
type Memory struct {
	Owners    []Owned `json:"owners"`
	Requested int64   `json:"requested"` // the plan's spaces
	Granted   int64   `json:"granted"`   // as allocated by the driver
	Own       int64   `json:"own"`       // outside of the plan: seed and step, tables of joined launches, staging block
	Host      int64   `json:"host"`      // of the host's memory, which values and states move to
	// Held and Peak are the bytes of all blocks, now and at most; Calls is the number of
	// allocations.
	Held  int64 `json:"held"`
	Peak  int64 `json:"peak"`
	Calls int   `json:"calls"`
	// Driver is the heap usage of this process as the driver reports it, including the driver's own
	// memory (CPU drivers report that of the machine); 0 if it does not report any. DriverPeak
	// is the highest value seen so far.
	Driver     int64 `json:"driver"`
	DriverPeak int64 `json:"driver_peak"`
}

// Memory returns the device's memory. Steps do not change Own.
func (d *Device) Memory() Memory {
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	return d.ask()
}

func (d *Device) ask() Memory {
	u := d.gpu.Usage()
	d.memory.Held, d.memory.Peak, d.memory.Calls = u.Bytes, u.Peak, u.Calls
	d.memory.Driver = int64(d.gpu.Heap(vk.Near).Usage)
	d.memory.DriverPeak = max(d.memory.DriverPeak, d.memory.Driver)
	return d.memory
}

// bounceBytes is the size of the staging block, for transfers from and to memory that is not
// host-visible.
const bounceBytes = 16 << 20

// read copies a span to dst.
func (d *Device) read(dst []byte, s span) error {
	return d.pieces(s, func(b []byte) error {
		dst = dst[copy(dst, b):]
		return nil
	})
}

// pieces calls show with consecutive pieces of a span: the whole if it is mapped, else as much as
// fits the staging block.
func (d *Device) pieces(s span, show func([]byte) error) error {
	if err := d.refused(); err != nil {
		return err
	}
	if h := d.host(s); h != nil {
		return show(h)
	}
	for s.at < s.end {
		b, at := d.spaces[s.space].locate(s.at)
		n := min(s.end-s.at, bounceBytes)
		if err := d.carry(vk.Command{Kind: vk.Copy, From: b, FromAt: at, To: d.bounce, Bytes: n}); err != nil {
			return err
		}
		if err := show(unsafe.Slice((*byte)(d.bounce.Mapped()), n)); err != nil {
			return err
		}
		s.at += n
	}
	return nil
}

// write copies src to a span.
func (d *Device) write(s span, src []byte) error {
	if err := d.refused(); err != nil {
		return err
	}
	if h := d.host(s); h != nil {
		copy(h, src)
		return nil
	}
	for len(src) > 0 {
		b, at := d.spaces[s.space].locate(s.at)
		n := min(int64(len(src)), bounceBytes)
		copy(unsafe.Slice((*byte)(d.bounce.Mapped()), n), src)
		if err := d.carry(vk.Command{Kind: vk.Copy, From: d.bounce, To: b, ToAt: at, Bytes: n}); err != nil {
			return err
		}
		src, s.at = src[n:], s.at+n
	}
	return nil
}

// carry submits a single copy or fill.
func (d *Device) carry(c vk.Command) error {
	l, err := d.gpu.Record([]vk.Command{{Kind: vk.Barrier, Host: true}, c, {Kind: vk.Barrier, Host: true}}, nil)
	if err != nil {
		return err
	}
	defer d.gpu.FreeList(l)
	return d.submit([]*vk.List{l})
}
