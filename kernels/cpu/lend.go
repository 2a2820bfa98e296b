package cpu

import (
	"slices"
	"unsafe"

	"memopt/memopt/graph"
	"memopt/planner"
)

// What a step only reads, inputs and parameters that it does not update, need not be copied to its place: whoever has the
// numbers can lend them, and launches read them there.

// place is where a value has its bytes outside the arena.
type place struct {
	space  planner.Space
	offset int64
}

// lentAlignment is that of every offset in the device's own spaces, which operators may count on.
const lentAlignment = 64

// Lend has launches read a parameter, constant or input where x is, until it is lent another or set, and reports whether
// they do. x stays as it is while a step runs, and lies in memory that outlives the device. Integers are not read so:
// they are looked at twice, as indices are, and somebody may change them in between.
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

// own ends a loan: the value has its own place again, which holds what it held before.
func (d *Device) own(name string) {
	if d.lent[name] {
		at, n := d.places[name], int64(len(d.fixed[name].Bytes))
		d.show(at, d.spaces[at.space][at.offset:at.offset+n:at.offset+n])
		delete(d.lent, name)
	}
}

// show has everybody who sees what lies at a place see other bytes.
func (d *Device) show(at place, bytes []byte) {
	for _, x := range d.seen[at] {
		x.Bytes = bytes
	}
}

// sees notes who sees what lies outside the arena.
func (d *Device) sees(r planner.Ref, x *graph.Tensor) {
	if r.Space == planner.Arena || r.Bytes == 0 {
		return
	}
	at := place{r.Space, r.Offset}
	if before := d.seen[at]; len(before) > 0 {
		x.Bytes = before[0].Bytes // which may be lent
	}
	d.seen[at] = append(d.seen[at], x)
}
