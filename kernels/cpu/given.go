package cpu

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// given is the state of a device without memory of its own (Options.Given).
type given struct {
	schedule.Memory
	tensors map[*graph.Value]*graph.Tensor // of the arena: one for each value
	ranges  []givenRange                   // the schedule's live ranges
	begins  [][]int                        // by launch: the ranges that begin with it
	ends    [][]int                        // and those that end with it
	current map[int64]int                  // while calls are prepared: the range that begins at an offset
	at      *byte                          // the arena that the ranges refer to; nil: none
}

// givenRange is a live range, and what refers to it.
type givenRange struct {
	schedule.Life
	of      string
	tensors []*graph.Tensor
	scratch *graph.Call // its work space
	free    func()      // nil: it is not allocated
}

// show sets the range's memory.
func (r *givenRange) show(bytes []byte) {
	for _, x := range r.tensors {
		x.Bytes = bytes[: int64(x.Len())*x.Type.Size() : len(bytes)]
	}
	if r.scratch != nil {
		r.scratch.Scratch = bytes
	}
}

func (r *givenRange) end() {
	if r.free != nil {
		r.free()
		r.free = nil
	}
}

// divide finds the live ranges of each launch.
func (g *given) divide(s *schedule.Schedule) {
	n := len(s.Launches)
	g.tensors, g.current = map[*graph.Value]*graph.Tensor{}, map[int64]int{}
	g.ranges, g.begins, g.ends = make([]givenRange, len(s.Lives)), make([][]int, n), make([][]int, n+1)
	for k, l := range s.Lives {
		if g.ranges[k].Life = l; l.Bytes == 0 {
			continue
		}
		g.begins[l.First] = append(g.begins[l.First], k)
		if int(l.Last) < n || !slices.ContainsFunc(s.Outputs, func(r schedule.Ref) bool { return r.Space == schedule.Arena && r.Offset == l.Offset }) {
			g.ends[l.Last-1] = append(g.ends[l.Last-1], k)
		} // else an output is read there, until Release
	}
}

// launch prepares for the operands of a launch.
func (g *given) launch(i int) {
	for _, k := range g.begins[i] {
		g.current[g.ranges[k].Offset] = k
	}
}

// tensor is the tensor of an operand in the arena.
func (g *given) tensor(r schedule.Ref) *graph.Tensor {
	x := g.tensors[r.Value]
	if x == nil {
		x = &graph.Tensor{Type: r.Value.Type, Shape: r.Shape}
		if g.tensors[r.Value] = x; r.Bytes > 0 {
			in := &g.ranges[g.current[r.Offset]]
			if in.tensors = append(in.tensors, x); in.of == "" {
				in.of = r.Value.Name
			}
		}
	}
	return x
}

// scratch notes a launch's work space.
func (g *given) scratch(c *graph.Call, r schedule.Ref) {
	in := &g.ranges[g.current[r.Offset]]
	in.scratch, in.of = c, "work space of "+c.Node.Name
}

// read makes launches read a parameter or constant where it is.
func (d *Device) read(r schedule.Ref) error {
	x := d.options.Lent[r.Value.Name]
	if x == nil {
		var err error
		if x, err = r.Value.Tensor(d.schedule.Binding); err != nil {
			return err
		}
	}
	if int64(len(x.Bytes)) != r.Bytes {
		return fmt.Errorf("value %q has %d bytes of data, not %d", r.Value.Name, len(x.Bytes), r.Bytes)
	}
	d.show(d.places[r.Value.Name], x.Bytes)
	return nil
}

// give sets the memory of a run, until Release.
func (d *Device) give(m *schedule.Memory) error {
	g := &d.given
	if m == nil {
		return errors.New("cpu: the device has no memory of its own, and the run gives it none")
	}
	g.Memory = *m
	for at, bytes := range m.Outputs {
		d.show(place{schedule.Given, at}, bytes)
	}
	if m.Take != nil {
		g.at = nil
		return nil
	}
	if n := d.schedule.Arena; int64(len(m.Arena)) < n {
		return fmt.Errorf("cpu: the plan's arena has %d bytes, but %d are given", n, len(m.Arena))
	}
	if at := unsafe.SliceData(m.Arena); at != g.at {
		for k := range g.ranges {
			if r := &g.ranges[k]; r.Bytes > 0 {
				r.show(m.Arena[r.Offset : r.Offset+r.Bytes : r.Offset+r.Bytes])
			}
		}
		g.at = at
	}
	return nil
}

// Release ends the use of the memory that the last run was given, and frees what a failed run has left.
func (d *Device) Release() {
	for k := range d.given.ranges {
		d.given.ranges[k].end()
	}
	for _, in := range d.inputs {
		d.show(d.places[in.Value.Name], nil)
	}
	for at := range d.given.Outputs {
		d.show(place{schedule.Given, at}, nil)
	}
	d.given.Memory = schedule.Memory{}
}

// take allocates the live ranges that begin with launch i.
func (g *given) take(i int) error {
	if g.Take == nil {
		return nil
	}
	for _, k := range g.begins[i] {
		r := &g.ranges[k]
		bytes, free, err := g.Take(r.Bytes, r.of)
		if err != nil {
			return err
		}
		r.free = free
		if !g.Dry {
			r.show(bytes)
		}
	}
	return nil
}

// drop frees those that end with launch i.
func (g *given) drop(i int) {
	if g.Take == nil {
		return
	}
	for _, k := range g.ends[i] {
		g.ranges[k].end()
	}
}
