package cpu

import (
	"bytes"
	"fmt"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// poison fills bytes with ones: NaN as a float of any width.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// guard is the width of the canaries on each side.
const guard = 64

const canary = 0xc5

// guarded runs a launch on copies of its operands between canaries, and copies the outputs
// back. Operands that share memory in the arena (in-place outputs) share a copy.
func (d *Device) guarded(l *launch) error {
	type key struct {
		space  schedule.Space
		offset int64
	}
	copies := map[key][]byte{}
	whole := map[key][]byte{}
	get := func(r schedule.Ref) []byte {
		if r.Bytes == 0 {
			return nil // an empty operand may have any offset
		}
		k := key{r.Space, r.Offset}
		if c, ok := copies[k]; ok && int64(len(c)) == r.Bytes {
			return c
		}
		b := graph.NewTensor(graph.Uint8, int(r.Bytes)+2*guard).Bytes
		for i := range b {
			b[i] = canary
		}
		c := b[guard : guard+int(r.Bytes) : guard+int(r.Bytes)]
		copy(c, d.spaces[r.Space][r.Offset:r.Offset+r.Bytes])
		copies[k], whole[k] = c, b
		return c
	}
	call := *l.call
	call.In, call.Out = make([]*graph.Tensor, len(l.src.In)), make([]*graph.Tensor, len(l.src.Out))
	over := map[key]bool{}
	for i, r := range l.src.In {
		if r.Value != nil {
			call.In[i] = &graph.Tensor{Type: r.Value.Type, Shape: r.Shape, Bytes: get(r)}
		}
	}
	for i, r := range l.src.Out {
		if r.Value == nil {
			continue
		}
		b := get(r)
		over[key{r.Space, r.Offset}] = over[key{r.Space, r.Offset}] || r.Bytes > 0
		if !d.reads(l, r) {
			poison(b)
		}
		call.Out[i] = &graph.Tensor{Type: r.Value.Type, Shape: r.Shape, Bytes: b}
	}
	if s := l.src.Scratch; s.Bytes > 0 {
		call.Scratch = get(s)
		over[key{s.Space, s.Offset}] = true
		poison(call.Scratch)
	}
	l.run(&call)
	name := func(what string, i int) error {
		return fmt.Errorf("cpu: poison: node %q (%s) wrote %s %d", l.node.Name, l.node.Op.FullName(), what, i)
	}
	for i, r := range l.src.In {
		if r.Value == nil || r.Bytes == 0 || over[key{r.Space, r.Offset}] {
			continue
		}
		if !bytes.Equal(call.In[i].Bytes, d.spaces[r.Space][r.Offset:r.Offset+r.Bytes]) {
			return name("to its input", i)
		}
	}
	for k, b := range whole {
		n := len(b) - guard
		for i := range guard {
			if b[i] != canary || b[n+i] != canary {
				return fmt.Errorf("cpu: poison: node %q (%s) wrote outside its bytes at %s+%d", l.node.Name, l.node.Op.FullName(), k.space, k.offset)
			}
		}
	}
	for i, r := range l.src.Out {
		if r.Value != nil {
			copy(d.spaces[r.Space][r.Offset:r.Offset+r.Bytes], call.Out[i].Bytes)
		}
	}
	return nil
}

// reads reports whether an output has the place of one of the inputs.
func (d *Device) reads(l *launch, out schedule.Ref) bool {
	for _, r := range l.src.In {
		if r.Value != nil && r.Space == out.Space && r.Offset == out.Offset {
			return true
		}
	}
	return false
}
