package vulkan

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"memopt/internal/graph"
	"memopt/kernels/vulkan/vk"
)

// Parameter updates are many and mostly small, and the overhead of a dispatch exceeds their
// work. Updates whose kernels have a joined form (graph.Kernel.Joined) become one dispatch, at
// the first of them, if no launch in between conflicts with moving the others there. The
// dispatch binds the range from the first to the last byte that any of them accesses, and a
// table tells each workgroup which update it belongs to. The schedule and the places of values
// do not change; poisoned and timed runs execute launch by launch.

const (
	// joinGroups is the most workgroups of a joined launch: on lavapipe the table costs 1.3 ns
	// an element, and a launch less saves 14 µs.
	joinGroups = 8
	// joinReach is how many launches ahead join looks for another one.
	joinReach = 64
)

// run is a group of joined launches, stored at the first of them.
type run struct {
	launches int
	dispatch dispatch
}

// Joined returns how many launches of a step are joined, and into how many dispatches.
func (d *Device) Joined() (launches, dispatches int) {
	for _, l := range d.launches {
		if l.run != nil {
			launches, dispatches = launches+l.run.launches, dispatches+1
		}
	}
	return launches, dispatches
}

// joiner collects launches that can be joined.
type joiner struct {
	d        *Device
	first    int // number of the first launch
	launches int
	parts    []dispatch
	bindings []vk.Binding // by binding: the range that covers all parts
	spans    []span       // the same, in the plan's spaces
	at       [][]int64    // by part and binding: offset of its buffer in the block
	h        hazards      // of the parts
	behind   hazards      // of launches in between, which will run after them
}

// join finds all groups of launches that can be joined, and binds them.
func (d *Device) join(pipelines *[]*vk.Pipeline, bindings *[][]vk.Binding) error {
	var all []*joiner
	for i := range d.launches {
		if d.launches[i].joined || !d.joins(i) {
			continue
		}
		j := &joiner{d: d, first: i}
		j.takes(i)
		members := []int{i}
		for k := i + 1; k < min(len(d.launches), i+joinReach) && d.launches[k].call == nil && d.launches[k].src.Node != nil && !d.launches[k].src.Node.Op.Border; k++ {
			j.moved(k)
			switch {
			case d.launches[k].joined: // part of an earlier run
			case d.joins(k) && j.takes(k):
				members = append(members, k)
			default:
				j.leaves(k)
			}
		}
		if len(members) > 1 {
			all = append(all, j)
			for _, k := range members {
				d.launches[k].joined = true
			}
		}
	}
	bytes := int64(0)
	for _, j := range all {
		bytes += j.tableBytes()
	}
	if bytes == 0 {
		return nil
	}
	var err error
	if d.tables, err = d.gpu.NewBlock(bytes, vk.Host); err != nil {
		return err
	}
	d.tookBeside("other", d.tables)
	at := int64(0)
	for _, j := range all {
		r, bound, err := j.run(at, len(*pipelines))
		if err != nil {
			return err
		}
		*pipelines, *bindings = append(*pipelines, r.dispatch.pipeline), append(*bindings, bound)
		d.launches[j.first].run = r
		at += j.tableBytes()
	}
	return nil
}

// joins reports whether a launch can be joined with others.
func (d *Device) joins(i int) bool {
	l := &d.launches[i]
	large := func(c dispatch) bool { return c.Kernel.Joined == nil || c.addresses != nil || groupsOf(c) > joinGroups }
	return l.call == nil && !streams(l.src) && len(l.dispatches) > 0 && !slices.ContainsFunc(l.dispatches, large)
}

// leaves keeps launch i where it is: after the joined ones.
func (j *joiner) leaves(i int) {
	for _, c := range j.d.launches[i].dispatches {
		j.behind.reads, j.behind.writes = append(j.behind.reads, c.reads...), append(j.behind.writes, c.writes...)
	}
}

// moved keeps the copies before launch i where they are: after the joined ones.
func (j *joiner) moved(i int) {
	out, in := j.d.moves.before(i)
	for way, all := range [2][]int32{out, in} {
		for _, k := range all {
			from, to := j.d.moves.between(k, way == 1)
			j.behind.reads, j.behind.writes = append(j.behind.reads, from), append(j.behind.writes, to)
		}
	}
}

// takes adds launch i to the joined ones, if that is possible.
func (j *joiner) takes(i int) bool {
	l := &j.d.launches[i]
	for _, c := range l.dispatches {
		if j.behind.between(c.reads, c.writes) {
			return false
		}
	}
	next := *j
	// Clone the lists: j must not change if the launch cannot join.
	next.parts, next.at, next.h = slices.Clone(j.parts), slices.Clone(j.at), hazards{slices.Clone(j.h.reads), slices.Clone(j.h.writes)}
	for _, c := range l.dispatches {
		if !next.add(l, c) {
			return false
		}
	}
	next.launches++
	*j = next
	return true
}

// add adds a dispatch, if that is possible.
func (j *joiner) add(l *launch, c dispatch) bool {
	if len(c.Buffers)+1 > j.d.gpu.Physical.StorageBuffers || j.h.next(c.reads, c.writes) {
		return false
	}
	if len(j.parts) > 0 {
		o := j.parts[0]
		if o.Kernel != c.Kernel || !slices.Equal(o.Spec, c.Spec) || !slices.Equal(o.Push[1:], c.Push[1:]) {
			return false
		}
	}
	all, spans, at := make([]vk.Binding, len(c.Buffers)), make([]span, len(c.Buffers)), make([]int64, len(c.Buffers))
	for k, b := range c.Buffers {
		s, x := j.d.range_(l.src, b)
		if at[k] = x.At; len(j.parts) > 0 {
			o, end := j.bindings[k], x.At+x.Bytes
			if o.Block != x.Block {
				return false
			}
			x.At, x.Bytes = min(x.At, o.At), max(end, o.At+o.Bytes)-min(x.At, o.At)
			if s != (span{}) {
				s.at, s.end = min(s.at, j.spans[k].at), max(s.end, j.spans[k].end)
			}
		}
		if x.Bytes > j.d.options.Range {
			return false
		}
		all[k], spans[k] = x, s
	}
	j.parts, j.bindings, j.spans, j.at = append(j.parts, c), all, spans, append(j.at, at)
	return true
}

func (j *joiner) rowWords() int { return 2 + len(j.bindings) }

// tableBytes is the size of the table in the block of tables.
func (j *joiner) tableBytes() int64 {
	groups := 0
	for _, c := range j.parts {
		groups += groupsOf(c)
	}
	n := int64(4 * (len(j.parts)*j.rowWords() + groups + j.spare(groups)))
	return (n + vk.MaxAlignment - 1) / vk.MaxAlignment * vk.MaxAlignment
}

// run makes the joined dispatch and its bindings, and writes its table at the given offset of the
// block of tables.
func (j *joiner) run(at int64, set int) (*run, []vk.Binding, error) {
	d, first := j.d, j.parts[0]
	groups, table := 0, []byte(nil)
	word := func(n int64) { table = binary.LittleEndian.AppendUint32(table, uint32(n)) }
	for i, c := range j.parts {
		word(int64(groups))
		word(int64(c.Push[0]))
		for k, from := range j.at[i] {
			word((from - j.bindings[k].At) / 4)
		}
		groups += groupsOf(c)
	}
	for i, c := range j.parts {
		for range groupsOf(c) {
			word(int64(i))
		}
	}
	for range j.spare(groups) {
		word(int64(len(j.parts) - 1))
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(d.tables.Mapped(), at)), len(table)), table)
	c := dispatch{set: set, Dispatch: graph.Dispatch{
		Kernel: first.Kernel.Joined, Spec: first.Spec, Push: append([]uint32{uint32(len(j.parts))}, first.Push[1:]...), Groups: j.inLine(groups),
	}}
	for k, b := range first.Buffers {
		switch s := j.spans[k]; {
		case s.end == s.at:
		case b.Writes:
			c.writes = append(c.writes, s)
		default:
			c.reads = append(c.reads, s)
		}
	}
	bound := append(slices.Clone(j.bindings), vk.Binding{Block: d.tables, At: at, Bytes: int64(len(table))})
	var err error
	c.pipeline, err = d.pipeline(c.Dispatch, len(bound))
	return &run{j.launches, c}, bound, err
}

func groupsOf(c dispatch) int { return c.Groups[0] * c.Groups[1] * c.Groups[2] }

// spare is the number of workgroups beyond the last, which do nothing.
func (j *joiner) spare(groups int) int {
	g := j.inLine(groups)
	return g[0]*g[1] - groups
}

// inLine distributes workgroups over two dims.
func (j *joiner) inLine(groups int) [3]int {
	x := min(groups, int(min(j.d.gpu.Physical.MaxGroups[0], 1<<30)))
	return [3]int{x, (groups + x - 1) / x, 1}
}
