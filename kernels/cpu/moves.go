package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"memopt/internal/arena"
	"memopt/internal/schedule"
)

// Far is a place beside the arena that values are moved to. Its ranges are read and written at the same time.
type Far interface {
	io.WriterAt
	io.ReaderAt
	io.Closer
}

// moves obeys a schedule's moves. One copier makes them in the order in which they are issued, as both directions share a disk;
// a launch waits for a copy that is late. See recompute.Move for the order of events before a launch.
type moves struct {
	all                 []schedule.Transfer
	out, gone, in, back [][]int32  // by launch: the moves of each event
	empty               [][][]byte // by launch: ranges of the arena that nothing uses from here on until what left comes back
	far                 Far
	copier              *copier
	issued              [2][]*copying // by move: its copy out, and back, if it is not waited for
	space               []byte
	poisoned            bool // copies are made at the last moment, and what they fill is not to be read before
	trace               schedule.Moved
}

// directions of copies.
const (
	outward = iota
	homeward
)

// openMoves readies the moves of a schedule. Places elsewhere are as high as they need to be.
func (d *Device) openMoves(s *schedule.Schedule) error {
	if len(s.Moves) == 0 {
		return nil
	}
	if d.options.Far == nil || d.options.Given {
		return errors.New("cpu: the plan moves values elsewhere, and the device was opened without a place for them")
	}
	m := &moves{all: s.Moves, space: d.spaces[schedule.Arena], poisoned: d.options.Poison}
	for _, lists := range []*[][]int32{&m.out, &m.gone, &m.in, &m.back} {
		*lists = make([][]int32, len(s.Launches)+1)
	}
	for k, x := range s.Moves {
		for _, e := range []struct {
			lists [][]int32
			at    int32
		}{{m.out, x.Out}, {m.gone, x.Gone}, {m.in, x.In}, {m.back, x.Back}} {
			e.lists[e.at] = append(e.lists[e.at], int32(k))
		}
		d.used[schedule.Arena] = max(d.used[schedule.Arena], x.To.Offset+x.To.Bytes)
	}
	m.trace.Far = s.Far()
	var err error
	if m.far, err = d.options.Far(m.trace.Far); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	m.empties(s)
	for e := range m.issued {
		m.issued[e] = make([]*copying, len(m.all))
	}
	m.copier = newCopier(2*len(m.all), m.poisoned, &m.trace.Waited)
	d.moves = m
	return nil
}

func (m *moves) near(r schedule.Ref) []byte { return m.space[r.Offset : r.Offset+r.Bytes] }

func (m *moves) copyOut(x *schedule.Transfer) error {
	if _, err := m.far.WriteAt(m.near(x.From), x.Far); err != nil {
		return fmt.Errorf("cpu: moving %q out of the arena: %w", x.From.Value.Name, err)
	}
	return nil
}

func (m *moves) copyIn(x *schedule.Transfer) error {
	if _, err := m.far.ReadAt(m.near(x.To), x.Far); err != nil {
		return fmt.Errorf("cpu: moving %q back into the arena: %w", x.To.Value.Name, err)
	}
	return nil
}

// issue gives a copy to the copier.
func (m *moves) issue(e int, k int32) {
	m.issued[e][k] = m.copier.issue(func() error {
		if e == outward {
			return m.copyOut(&m.all[k])
		}
		return m.copyIn(&m.all[k])
	})
}

// wait waits for the end of a copy.
func (m *moves) wait(e int, k int32) error {
	x := m.issued[e][k]
	m.issued[e][k] = nil
	return m.copier.wait(x)
}

// before does what moves do before launch i; left is called when what left the arena is elsewhere.
func (m *moves) before(i int, left func()) error {
	if m == nil {
		left()
		return nil
	}
	for _, k := range m.out[i] {
		m.issue(outward, k)
	}
	for _, k := range m.gone[i] {
		if err := m.wait(outward, k); err != nil {
			return err
		}
		m.trace.Bytes += m.all[k].From.Bytes
	}
	left()
	for _, b := range m.empty[i] {
		arena.Release(b)
	}
	for _, k := range m.in[i] {
		m.issue(homeward, k)
	}
	for _, k := range m.back[i] {
		if err := m.wait(homeward, k); err != nil {
			return err
		}
	}
	return nil
}

// begin is called before the first launch of a step; a step before may have been given up.
func (m *moves) begin() {
	if m != nil {
		m.settle()
		m.trace.Waited, m.trace.Bytes = 0, 0
	}
}

// settle waits for the copies under way, whatever comes of them, as they use the arena's memory.
func (m *moves) settle() {
	if m == nil {
		return
	}
	for _, issued := range m.issued {
		_ = m.copier.settle(issued)
		clear(issued)
	}
}

func (m *moves) close() error {
	if m == nil {
		return nil
	}
	m.settle()
	m.copier.close()
	return m.far.Close()
}

// empties finds the ranges that nothing uses from the launch at which values leave until they come back: the system gets
// their pages back for that time. Most places are filled again at once, which is why the values had to go; giving those back
// would only cost a fault for each page.
func (m *moves) empties(s *schedule.Schedule) {
	m.empty = make([][][]byte, len(s.Launches)+1)
	if m.poisoned {
		return
	}
	lives := slices.SortedFunc(slices.Values(s.Lives), func(a, b schedule.Life) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, x := range m.all {
		from, to := x.From.Offset, x.From.Offset+x.From.Bytes
		free := func(end int64) {
			if end > from {
				m.empty[x.Gone] = append(m.empty[x.Gone], m.space[from:end])
			}
		}
		for _, l := range lives {
			if l.Offset >= to {
				break
			}
			if l.Bytes > 0 && l.Offset+l.Bytes > from && l.Last > x.Gone && l.First < x.In {
				free(l.Offset)
				from = l.Offset + l.Bytes
			}
		}
		free(to)
	}
}
