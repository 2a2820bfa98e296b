package kernels

import (
	"math"
	"slices"
	"sync"

	"memopt/kernels/internal/spirv"
	"memopt/memopt/graph"
)

// Buffers by their addresses: a kernel's other form, for devices that have them
// (spirv.Addressed). Neither lowerings nor shaders know of it: what was compiled is
// edited.
//
// Descriptors are the form that all others are held against: the validation layer
// sees through them which bytes a kernel touches, and through addresses nothing.

// addressedForms has the form of each kernel that was asked for it.
var addressedForms sync.Map

// addressed is a kernel's form for addresses, or nil: one without push constants
// has none.
func addressed(k *graph.Kernel) *graph.Kernel {
	form, ok := addressedForms.Load(k)
	if !ok {
		var made *graph.Kernel
		if code := spirv.Addressed(k.Code); code != nil {
			made = &graph.Kernel{Name: k.Name + "-addressed", Code: code, Bound: k}
		}
		form, _ = addressedForms.LoadOrStore(k, made)
	}
	return form.(*graph.Kernel)
}

// withAddresses is a Lower for devices with addresses, too: what would see more of a
// buffer than the device shows, and cannot be done in pieces, is done whole, by
// kernels that find such buffers there.
func withAddresses(lower func(*graph.Lowering)) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		lower(l)
		beyond := func(d graph.Dispatch) bool { return l.TooFar(d) >= 0 }
		if !l.Limits.Far || l.Refused == "" && !slices.ContainsFunc(l.Dispatches, beyond) || slices.ContainsFunc(slices.Concat(l.In, l.Out), tooLong) {
			return
		}
		whole := l.With(l.In, l.Out)
		whole.Limits.Range = math.MaxInt64
		if lower(whole); whole.Refused != "" {
			return
		}
		l.Dispatches, l.Scratch, l.Refused = whole.Dispatches, whole.Scratch, ""
		for i, d := range l.Dispatches {
			if form := addressed(d.Kernel); form != nil && beyond(d) {
				l.Dispatches[i].Kernel = form
			}
		}
	}
}

// tooLong says that a kernel cannot count an operand's elements from an address, for
// which 32 bits have a sign.
func tooLong(o *graph.Operand) bool { return o != nil && o.Len() > math.MaxInt32 }
