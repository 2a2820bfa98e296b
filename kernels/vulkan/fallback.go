package vulkan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/cpu"
)

// fallback is a launch that runs on the CPU.
type fallback struct {
	src   schedule.Launch
	why   string
	moves int64 // bytes copied from and to memory that is not host-visible
	took  time.Duration
}

func (d *Device) newFallback(l schedule.Launch, why string) *fallback {
	if d.pool == nil {
		d.pool = cpu.NewPool()
	}
	f := &fallback{src: l, why: why}
	for _, refs := range [][]schedule.Ref{l.In, l.Out} {
		for _, r := range refs {
			if r.Value != nil && d.bounce != nil && d.host(spanOf(r)) == nil {
				f.moves += r.Bytes
			}
		}
	}
	return f
}

// callHost runs a launch on the CPU. A failure inside, such as an index out of range, becomes an
// error that names the node.
func (d *Device) callHost(f *fallback, r schedule.Run) (err error) {
	begin := time.Now()
	n := f.src.Node
	c := &graph.Call{Node: n, Seed: r.Seed, Step: r.Step, Parallel: d.pool.Parallel}
	tensor := func(r schedule.Ref, read bool) *graph.Tensor {
		if r.Value == nil {
			return nil
		}
		x := &graph.Tensor{Type: r.Value.Type, Shape: r.Shape, Bytes: d.host(spanOf(r))}
		if x.Bytes == nil {
			x = graph.NewTensor(r.Value.Type, r.Shape...)
			if read {
				err = firstOf(err, d.read(x.Bytes, spanOf(r)))
			}
		}
		return x
	}
	for _, in := range f.src.In {
		c.In = append(c.In, tensor(in, true))
	}
	for _, out := range f.src.Out {
		c.Out = append(c.Out, tensor(out, n.Op.Overwrites != nil))
	}
	if n.Op.Overwrites != nil {
		for o, i := range n.Op.Overwrites {
			if c.Out[o] != nil {
				c.In[i] = c.Out[o]
			}
		}
	}
	// The plan's work space is sized for kernels, not for Fast.
	if n.Op.Scratch != nil {
		var need int64
		if need, err = d.schedule.Binding.Eval(n.Op.Scratch(n)); err != nil {
			return err
		}
		c.Scratch = graph.NewTensor(graph.Uint8, int(need)).Bytes
	}
	if err != nil {
		return err
	}
	form := n.Op.Fast
	if form == nil {
		form = n.Op.Eval
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*graph.NodeError)
			if !ok {
				panic(r)
			}
			err = e
		}
		f.took = time.Since(begin)
	}()
	form(c)
	for o, out := range f.src.Out {
		if out.Value != nil && d.host(spanOf(out)) == nil {
			if err := d.write(spanOf(out), c.Out[o].Bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Fallbacks returns the number of launches of a step that run on the CPU, and the bytes that are
// copied for them.
func (d *Device) Fallbacks() (launches int, bytes int64) {
	for _, l := range d.launches {
		if l.call != nil {
			launches++
			bytes += l.call.moves
		}
	}
	return launches, bytes
}

// Warnings lists what runs on the CPU and why, and fast paths that failed verification.
func (d *Device) Warnings() []string {
	n, bytes := d.Fallbacks()
	if n == 0 {
		return d.unproved
	}
	counts := map[string]int{}
	var reasons []string
	for _, l := range d.launches {
		if l.call == nil {
			continue
		}
		why := fmt.Sprintf("%s: %s", l.src.Node.Op.FullName(), l.call.why)
		if counts[why]++; counts[why] == 1 {
			reasons = append(reasons, why)
		}
	}
	for i, why := range reasons {
		if counts[why] > 1 {
			reasons[i] = fmt.Sprintf("%s (%d times)", why, counts[why])
		}
	}
	slices.Sort(reasons)
	return append(slices.Clip(d.unproved), fmt.Sprintf("%d of %d launches run on the processor and move %d bytes a step: %s", n, len(d.launches), bytes, strings.Join(reasons, "; ")))
}
