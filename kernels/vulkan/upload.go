package vulkan

import (
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// uploads is a device whose weights are loaded to the places of its plan. Its memory is allocated already.
type uploads struct {
	*Store
	d *Device
}

// Stage is the staging block of the device if that is large enough.
func (u uploads) Stage(n int64) (loader.Memory, error) {
	if u.d.bounce != nil && n <= u.d.bounce.Bytes {
		return block{u.d.bounce, func(*vk.Block) {}}, nil
	}
	return u.Store.Stage(vk.WholeWords(n))
}

// Copy carries out the moves, and waits for them.
func (u uploads) Copy(moves []loader.Move) error {
	l, err := u.d.gpu.Record(copies(moves), nil)
	if err != nil {
		return err
	}
	defer u.d.gpu.FreeList(l)
	return u.d.submit([]*vk.List{l})
}

// Loading is what loading the weights took; nil: another device has loaded them.
func (d *Device) Loading() *loader.Report { return d.options.Load.Report() }

// upload loads values to their places, and allocates the memory of the forward pass: after them, or
// before if the mode of loading says so.
func (d *Device) upload(refs []schedule.Ref) error {
	l := d.options.Load
	if l == nil {
		l = &loader.Planned{Options: loader.Options{Mode: loader.Streamed}}
	}
	var ws []loader.Weight
	var places []loader.Place
	for _, r := range refs {
		w, err := loader.WeightOf(r.Value, d.schedule.Binding, r.Bytes)
		if err != nil {
			return err
		}
		if r.Bytes == 0 {
			continue // it may have no block
		}
		b, at := d.spaces[r.Space].locate(r.Offset)
		ws, places = append(ws, w), append(places, loader.Place{In: block{b, d.gpu.Free}, At: at, Bytes: r.Bytes})
		d.stages.uploaded += r.Bytes
	}
	if l.Mode.ActivationsFirst() {
		if err := d.allocateRest(); err != nil {
			return err
		}
	}
	if err := l.Begin(ws, max(d.schedule.Arena, d.options.Arena)+d.staging, true); err != nil {
		return err
	}
	if err := l.Load(uploads{&Store{d.gpu, d.name}, d}, ws, places); err != nil {
		return err
	}
	if d.options.Loaded != nil {
		d.options.Loaded()
	}
	if !l.Mode.ActivationsFirst() {
		if err := d.allocateRest(); err != nil {
			return err
		}
	}
	l.End()
	return nil
}
