package vulkan

import (
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Verification of fast paths. Drivers exist that announce cooperative matrices but compute wrong
// products. So when a schedule is opened, one launch is run with the path and without it, on
// separate devices with generated inputs, and the results must agree.

// provedPaths are the paths to verify, and the type that inputs of kernels have that they change.
var provedPaths = []struct {
	path string
	of   graph.DType
}{{CooperativeMatrix, graph.Float16}, {CooperativeBFloat16, graph.BFloat16}}

// proofBytes bounds the operands of the launch to verify with: the first launch within it, or else
// the smallest one.
const proofBytes = 1 << 20

// prove verifies the fast paths in use. A path that fails is not used, or is an error if it was
// named in the request.
func (d *Device) prove() error {
	for _, p := range provedPaths {
		path := p.path
		if !d.takes(path) || d.options.proving {
			continue
		}
		l, err := d.changedBy(path, p.of)
		if err != nil || l.Node == nil {
			return err
		}
		off, err := d.partsBy(path, p.of, l)
		if err != nil {
			return fmt.Errorf("verifying fast path %s: %w", path, err)
		}
		if off == "" {
			continue
		}
		why := fmt.Sprintf("fast path %s gives wrong results on this device: node %q (%s) gives %s", path, l.Node.Name, l.Node.Op.FullName(), off)
		if slices.Contains(d.options.FastPaths, path) {
			return fmt.Errorf("%s; leave it out", why)
		}
		d.paths[path] = false
		d.unproved = append(d.unproved, why+"; it is not used")
	}
	return nil
}

// changedBy returns a launch with inputs of a type that has other dispatches with a path than without; its node is nil if
// there is none.
func (d *Device) changedBy(path string, of graph.DType) (best schedule.Launch, err error) {
	with := d.limits()
	d.paths[path] = false
	without := d.limits()
	d.paths[path] = true
	least := int64(math.MaxInt64)
	for _, l := range d.schedule.Launches {
		bytes := int64(0)
		for _, r := range slices.Concat(l.In, l.Out) {
			bytes += r.Bytes
		}
		seen := slices.ContainsFunc(l.In, func(r schedule.Ref) bool { return r.Value != nil && r.Value.Type == of })
		if !seen || l.Node == nil || l.Parts != nil || l.Node.Op.Overwrites != nil || bytes >= least {
			continue
		}
		a, err := graph.Lower(l.Node, d.schedule.Binding, with)
		if err != nil {
			return best, err
		}
		b, err := graph.Lower(l.Node, d.schedule.Binding, without)
		if err != nil {
			return best, err
		}
		same := func(x, y graph.Dispatch) bool { return x.Kernel == y.Kernel }
		if a.Refused != "" || b.Refused != "" || slices.EqualFunc(a.Dispatches, b.Dispatches, same) {
			continue
		}
		if best, least = l, bytes; bytes <= proofBytes {
			break
		}
	}
	return best, nil
}

// partsBy describes where the results of a launch with a path for factors of a type differ from those without; "" if they
// agree.
func (d *Device) partsBy(path string, of graph.DType, l schedule.Launch) (string, error) {
	s, in := alone(d.schedule.Binding, l)
	var sides [2][]*graph.Tensor
	for i, paths := range [][]string{{path}, {FastPathsNone}} {
		o := d.options
		o.FastPaths, o.proving, o.Poison, o.Faults, o.Context, o.Places, o.Load = paths, true, false, nil, nil, Places{}, nil
		x, err := Open(s, d.gpu.Physical, o)
		if err != nil {
			return "", err
		}
		defer x.Close()
		if _, err := x.Run(schedule.Run{Inputs: in}); err != nil {
			return "", err
		}
		for _, r := range s.Outputs {
			y, err := x.Output(r.Value.Name)
			if err != nil {
				return "", err
			}
			sides[i] = append(sides[i], y)
		}
	}
	for i, y := range sides[0] {
		if off := offBy(y, sides[1][i], of); off != "" {
			return off, nil
		}
	}
	return "", nil
}

// alone returns a schedule of one launch, and generated inputs.
func alone(b *graph.Binding, l schedule.Launch) (*schedule.Schedule, map[string]*graph.Tensor) {
	s, in := &schedule.Schedule{Binding: b}, map[string]*graph.Tensor{}
	place := func(r schedule.Ref, name string, space schedule.Space, height *int64) schedule.Ref {
		v := *r.Value
		v.Name, v.Kind, v.Data = name, graph.Input, nil
		r.Value, r.Space, r.Offset = &v, space, (*height+63)&^63
		*height = r.Offset + r.Bytes
		return r
	}
	one := schedule.Launch{Node: l.Node, In: slices.Clone(l.In), Out: slices.Clone(l.Out), Scratch: l.Scratch}
	for i, r := range l.In {
		if r.Value == nil {
			continue
		}
		one.In[i] = place(r, fmt.Sprint("input ", i), schedule.Staging, &s.Staging)
		s.Fixed = append(s.Fixed, one.In[i])
		x := graph.NewTensor(r.Value.Type, r.Shape...)
		if r.Value.Type.IsFloat() {
			for k := range x.Len() {
				x.SetFloat(k, float64((k*7919+13*i)%101)/50-1)
			}
		}
		in[one.In[i].Value.Name] = x
	}
	for i, r := range l.Out {
		if r.Value != nil {
			one.Out[i] = place(r, fmt.Sprint("output ", i), schedule.Arena, &s.Arena)
			s.Outputs = append(s.Outputs, one.Out[i])
		}
	}
	one.Scratch.Space, one.Scratch.Offset = schedule.Arena, (s.Arena+63)&^63
	s.Arena = one.Scratch.Offset + one.Scratch.Bytes
	s.Launches = []schedule.Launch{one}
	return s, in
}

// offBy describes the first element that differs by more than two units in the last place of a 16-bit type,
// relative to its magnitude plus the root mean square; "" if none does.
func offBy(got, want *graph.Tensor, of graph.DType) string {
	most := 1.0 / (1 << 9)
	if of == graph.BFloat16 {
		most = 1.0 / (1 << 6)
	}
	size := 0.0
	for i := range want.Len() {
		size += want.Float(i) * want.Float(i)
	}
	size = math.Sqrt(size / float64(max(1, want.Len())))
	for i := range want.Len() {
		if x, y := got.Float(i), want.Float(i); x != y && !(math.Abs(x-y) <= most*(math.Abs(y)+size)) {
			return fmt.Sprintf("%v instead of %v at element %d", x, y, i)
		}
	}
	return ""
}
