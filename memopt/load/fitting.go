package load

import (
	"fmt"
	"maps"

	"memopt/internal/bytesize"
	"memopt/internal/loader"
	"memopt/memopt/fit"
	"memopt/memopt/forward"
	"memopt/memopt/machine"
	"memopt/planner"
)

// wouldFit adds to a memory error the changes with which the load would fit. Any other error is returned unchanged.
// A planned load's memory is known to the byte: sizes are computed anew for each change.
func (t *loading) wouldFit(err error) error {
	e := machine.AsMemoryError(err)
	if e == nil {
		return err
	}
	if e.Room < 0 && t.device != nil {
		if usage, budget, ok := t.device.Driver(); ok {
			e.Room = e.Short.Reserved + max(budget-usage, 0)
		}
	}
	f := &fitting{Search: &fit.Search{Asked: t.config}, t: t, room: e.Room, left: fit.MostNodes}
	switch {
	case t.sizes.W == 0: // not planned yet
	case e.Room < 0:
		f.Skip(fit.Unsaid, fit.Anything)
	default:
		if e.Short.Cause == nil && e.Short.Limit > 0 {
			f.add("", planner.Setting{Name: "mem_limit", Value: bytesize.Near(t.mode.High(t.sizes))})
		}
		f.modes()
		f.dims()
		f.quantized()
	}
	f.Spell()
	e.Changes, e.Note = f.Found, f.Note()
	return e
}

// fitting looks for loads that fit in the available memory.
type fitting struct {
	*fit.Search
	t    *loading
	room int64
	left int // nodes that may still be planned
}

func (f *fitting) add(note string, set ...planner.Setting) {
	f.Found = append(f.Found, planner.Change{Set: set, Note: note})
}

// modes tries the other load modes, and smaller chunks.
func (f *fitting) modes() {
	t := f.t
	for _, name := range loader.Modes() {
		mode := loader.Mode(name)
		if mode == loader.InPlace && !t.device.Unified() {
			continue
		}
		if high := mode.High(t.sizes); mode != t.mode && high <= f.room {
			f.add(fit.Takes{Bytes: high, Of: fit.InAll}.Memory(), planner.Setting{Name: "load_mode", Value: name})
			if mode == loader.Streamed {
				return // only in-place loading takes less
			}
		}
	}
	less := t.sizes
	less.C = min(f.room-t.sizes.W, t.sizes.C)
	if t.mode == loader.Streamed && less.C >= loader.LeastChunk && less.C < t.sizes.C && t.mode.High(less) <= f.room {
		f.add("", planner.Setting{Name: "chunk", Value: fmt.Sprint(less.C)})
	}
}

// dims looks for the largest size of each dim with which the load fits.
func (f *fitting) dims() {
	t := f.t
	for _, name := range t.graph.Names() {
		if err := f.Size(name, t.config.Dims[name], func(n int64) error {
			if f.left -= len(t.graph.Nodes); f.left < 0 {
				return &fit.ErrLong{Why: "planning takes long"}
			}
			dims := maps.Clone(t.config.Dims)
			dims[name] = n
			if sizes, _, err := t.sizesFor(dims); err != nil || t.mode.High(sizes) > f.room {
				return fit.ErrShort
			}
			return nil
		}); err != nil {
			return
		}
	}
}

// quantized tries the model with 8-bit weights: it is written to a temporary file, and planned.
func (f *fitting) quantized() {
	t := f.t
	q, high, err := forward.QuantizedTo(t.ctx, t.path, func(to string) (int64, error) {
		other := &loading{ctx: t.ctx, path: to, config: t.config, mode: t.mode, lowered: t.lowered}
		defer other.unload()
		for _, step := range []func() error{other.open, other.build, other.plan} {
			if err := step(); err != nil {
				return 0, err
			}
		}
		return t.mode.High(other.sizes), nil
	})
	if err == nil && high > f.room {
		err = fit.ErrShort
	}
	forward.OfferQuantized(f.Search, t.path, q, high, err)
}
