package lower

import (
	"math"
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/spirv"
)

// Kernels that reach their buffers by device address (VK_KHR_buffer_device_address)
// instead of by descriptor, which lets a buffer be larger than the descriptor range.
// They are made by editing the compiled SPIR-V (spirv.Addressed), so lowerings and
// shaders need no second form. Descriptors stay the default: with them the validation
// layer can check which bytes a kernel touches.

// addressedForms caches addressed, by *graph.Kernel.
var addressedForms sync.Map

// addressed returns the form of a kernel that uses addresses, or nil if the kernel has
// no push constants to pass them in.
func addressed(k *graph.Kernel) *graph.Kernel {
	form, ok := addressedForms.Load(k)
	if !ok {
		var made *graph.Kernel
		if code := spirv.Addressed(k.Code()); code != nil {
			made = &graph.Kernel{Name: k.Name + "-addressed", Code: func() []byte { return code }, Bound: k}
		}
		form, _ = addressedForms.LoadOrStore(k, made)
	}
	return form.(*graph.Kernel)
}

// WithAddresses wraps a Lower for devices with buffer addresses. Where the lowering is
// refused or a dispatch exceeds the descriptor range, it lowers again without that
// limit, and the dispatches that exceed it use addressed kernels.
func WithAddresses(lower func(*graph.Lowering)) func(*graph.Lowering) {
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

// tooLong reports whether an operand has too many elements for addressed kernels, whose
// indices are signed 32-bit integers.
func tooLong(o *graph.Operand) bool { return o != nil && o.Len() > math.MaxInt32 }
