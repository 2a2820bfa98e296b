package session

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/weights"
	"memopt/kernels/cpu"
)

// Device runs one schedule repeatedly.
type Device interface {
	Name() string
	Run(schedule.Run) (schedule.Trace, error)
	WriteOutput(w io.Writer, name string) error
	Close() error
}

// Opener makes a device for a schedule, which shares parameters and constants with another of the same program, if there is
// one, and has inputs and outputs bound to places. arena is the size of its arena; 0: share that of the other. loaded is
// called when weights are there and values are not.
type Opener func(m DeviceMemory, s *schedule.Schedule, with Device, arena int64, places Places, loaded func()) (Device, error)

// ofDevice reports whether memory on the account is the device's, not only the host's.
func (s *Session) ofDevice(owner string) bool {
	return s.direct || owner == ownDevice || owner == ownLoaded || owner == ownBuffers
}

// told is the owner that a watch is told of memory on the account; "" where the device counts it itself.
func (s *Session) told(owner string) string {
	if s.direct {
		return owner
	}
	switch owner {
	case ownDevice, ownLoaded:
		return ""
	case ownWeights, ownComputed, ownResults, ownModel:
		return OwnHost
	}
	return owner
}

// keeps reports whether the session holds the content of a value for the device; it uploads mapped files itself.
func (s *Session) keeps(data graph.Data) bool {
	block, is := data.(*weights.Block)
	return s.direct || !is || block.Kind() != weights.KindMapped
}

// ready finds or opens the device of a plan for the places of a run. One that works in memory of the process is given
// places with each run.
func (s *Session) ready(plan *pattern, fetches []Fetch, inputs map[string]Place) (t *pattern, known bool, err error) {
	var places Places
	if !s.direct {
		if s.options.Watch.Begin != nil {
			if n := s.grows(plan, fetches); n > 0 {
				s.begin(OutputStage, func() (int64, int64) { return n, 0 })
			}
		}
		if places, err = plan.placesOf(s, inputs, fetches); err != nil {
			return nil, false, err
		}
	}
	key := plan.key + places.key()
	if t, ok := s.patterns.get(key); ok {
		s.stats.hits++
		return t, true, nil
	}
	x := *plan
	t = &x
	if t.places = places; len(places.Inputs)+len(places.Outputs) > 0 {
		if t.height, t.inputs, err = s.device.Need(t.schedule, places); err != nil {
			return nil, false, err
		}
	}
	if err := s.openDevice(t); err != nil {
		return nil, false, err
	}
	places.each(s.pin)
	s.patterns.put(key, t)
	s.stats.misses++
	return t, false, nil
}

// openDevice opens a pattern's device: the processor, which reads weights where they are and works in memory that each run
// gives it, or one with memory of its own, which is on the account from now on.
func (s *Session) openDevice(t *pattern) (err error) {
	if s.direct {
		if s.pool == nil && !s.options.dry {
			s.pool = cpu.NewPoolOf(cmp.Or(s.options.Threads, runtime.GOMAXPROCS(0)))
		}
		t.device, err = cpu.Open(t.schedule, cpu.Options{Given: true, Pool: s.pool, Workers: 1})
		return err
	}
	with, weights, err := s.roomOnDevice(t)
	if err != nil {
		return err
	}
	own := t.block.bytes
	if t.block.users > 1 {
		own = 0 // the block exists
	}
	s.begin(WeighStage, func() (int64, int64) { return -t.inputs - own, 0 })
	if t.device, err = s.options.Device(s.device, t.schedule, with, own, t.places, func() { s.begin(BindStage, nil) }); err != nil {
		s.leaveDevice(t)
		s.account.Give(ownLoaded, weights)
		return err
	}
	t.p.roots++
	if own > 0 && s.options.Arena.Strategy == arena.Planned {
		s.patterns.removeIf(func(o *pattern) bool { return o.p == t.p && o.block.bytes < t.block.bytes })
	}
	return nil
}

// forget closes the device of a pattern.
func (s *Session) forget(t *pattern) {
	for name, k := range s.kept {
		if k.on == t {
			delete(s.kept, name)
		}
	}
	if t.block != nil {
		if t.p.roots--; t.p.roots == 0 { // the last device frees the weights
			s.account.Give(ownLoaded, t.state)
		}
	}
	t.device.Close()
	if t.block != nil {
		s.leaveDevice(t)
	}
	t.device = nil
	t.places.each(s.unpin)
}

// evict frees the device memory of the pattern that was not used for longest, if there are more than keep that hold any.
func (s *Session) evict(keep int) bool {
	if s.patterns.len() <= keep || s.patterns.last().block == nil {
		return false
	}
	s.patterns.removeLast()
	return true
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
		case !s.evict(0):
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
	for t := range s.patterns.all {
		if t.p != p {
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
