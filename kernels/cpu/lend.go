package cpu

import (
	"slices"
	"unsafe"

	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Lending: inputs and parameters that a step only reads need not be copied to their places. Launches can read them in the
// caller's memory.

// place is the place of a value outside the arena.
type place struct {
	space  schedule.Space
	offset int64
}

// lentAlignment is the alignment of offsets in the device's spaces, which operators may rely on.
const lentAlignment = 64

// Lend makes launches read a parameter, constant or input from x's memory, until another tensor is lent or set, and reports
// whether that is possible. x must not change while a step runs, and its memory must outlive the device. Integers cannot be
// lent: indices are read twice (checked, then used), and another process might change them in between.
func (d *Device) Lend(name string, x *graph.Tensor) bool {
	to := d.fixed[name]
	if to == nil || x.Type != to.Type || !slices.Equal(x.Shape, to.Shape) || !lendable(x) || d.options.Poison {
		return false
	}
	d.show(d.places[name], x.Bytes)
	d.lent[name] = true
	return true
}

func lendable(x *graph.Tensor) bool {
	return x.Type.IsFloat() && len(x.Bytes) > 0 && uintptr(unsafe.Pointer(&x.Bytes[0]))%lentAlignment == 0
}

// own ends a loan: launches read the value's own place again, which still has its old contents.
func (d *Device) own(name string) {
	if d.lent[name] {
		at, n := d.places[name], int64(len(d.fixed[name].Bytes))
		d.show(at, d.spaces[at.space][at.offset:at.offset+n:at.offset+n])
		delete(d.lent, name)
	}
}

// show makes all tensors at a place refer to other bytes.
func (d *Device) show(at place, bytes []byte) {
	for _, x := range d.seen[at] {
		x.Bytes = bytes
	}
}

// sees records that tensor x refers to a place outside the arena.
func (d *Device) sees(r schedule.Ref, x *graph.Tensor) {
	if r.Space == schedule.Arena || r.Bytes == 0 {
		return
	}
	at := place{r.Space, r.Offset}
	if before := d.seen[at]; len(before) > 0 {
		x.Bytes = before[0].Bytes // may be lent
	}
	d.seen[at] = append(d.seen[at], x)
}
