package loader

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"memopt/internal/graph"
)

// WeightOf is a stored value as a weight of so many bytes.
func WeightOf(v *graph.Value, b *graph.Binding, n int64) (Weight, error) {
	w := Weight{Name: v.Name, Bytes: n}
	if from, is := v.Data.(io.ReaderAt); is && v.Data.Len() == n {
		w.From = from
		return w, nil
	}
	x, err := v.Tensor(b)
	if err != nil {
		return w, err
	}
	if int64(len(x.Bytes)) != n {
		return w, fmt.Errorf("value %q has %d bytes of data, not %d", v.Name, len(x.Bytes), n)
	}
	w.From = bytes.NewReader(x.Bytes)
	return w, nil
}

// Planned loads the weights of a device to the places that a plan gives them, and says what that took
// of device and host together, until the activations are there. A nil Planned streams.
type Planned struct {
	Options
	Context context.Context // ends the load; nil: nothing does
	// Host, if not nil, is called for memory of the process that is allocated or, with negative bytes,
	// freed.
	Host func(bytes int64)

	sizes  Sizes
	rise   int64 // most of a lazy load of a device that has allocated all weights when it begins
	r      *Recorder
	copies *HostCopies
}

// Report is what a load to planned places was promised to take, and what it took.
type Report struct {
	Mode     Mode   `json:"mode"`
	Formula  string `json:"formula"`
	W        int64  `json:"W"`
	Largest  int64  `json:"w"`
	A        int64  `json:"A"`
	C        int64  `json:"c"`
	Promised int64  `json:"promised"`
	Measured int64  `json:"measured"`
}

// wholeLazy is the most that a lazy load takes of a device that has allocated all weights when it begins.
const wholeLazy = "max(W + A, 2W + w)"

// Begin reads the weights, if the mode reads them first. activations is the bytes of arena and inputs;
// whole says that the memory of the weights is taken as a whole when they are loaded, not when each is
// written.
func (l *Planned) Begin(ws []Weight, activations int64, whole bool) error {
	l.whole, l.r, l.sizes = whole, NewRecorder(), Sizes{A: activations}
	for _, w := range ws {
		l.sizes.W += w.Bytes
		l.sizes.Largest = max(l.sizes.Largest, w.Bytes)
		l.sizes.Rise = max(l.sizes.Rise, l.sizes.W+w.Bytes)
	}
	left := l.sizes.W
	for _, w := range ws {
		before := l.sizes.W - left
		l.rise = max(l.rise, 2*l.sizes.W-before+w.Bytes)
		left -= w.Bytes
	}
	l.r.copied = l.Host
	if l.Mode.ActivationsFirst() {
		l.r.count("activations", activations, activations)
	}
	var err error
	l.copies, err = ReadAll(l.Context, ws, l.Mode, l.r)
	return err
}

// Load loads the weights to their places on a device.
func (l *Planned) Load(d Device, ws []Weight, places []Place) error {
	o := l.Options
	if o.given = places; o.given == nil {
		o.given = []Place{}
	}
	if l.Mode == Streamed && outOfReach(places) {
		l.sizes.C = min(o.chunk(), l.sizes.W)
	}
	l.r.Use(d)
	_, err := Upload(l.Context, d, ws, o, l.copies, l.r)
	return err
}

// End says that the activations are there.
func (l *Planned) End() {
	if !l.Mode.ActivationsFirst() {
		l.r.count("activations", l.sizes.A, l.sizes.A)
	}
}

// Report is the load's memory; nil: nothing was loaded.
func (l *Planned) Report() *Report {
	if l == nil || l.r == nil {
		return nil
	}
	s := l.sizes
	r := &Report{Mode: l.Mode, Formula: l.Mode.Formula(), W: s.W, Largest: s.Largest, A: s.A, C: s.C, Promised: l.Mode.High(s), Measured: l.r.most()}
	if l.whole && l.Mode == Lazy && s.W > 0 {
		r.Formula, r.Promised = wholeLazy, max(s.W+s.A, l.rise)
	}
	return r
}
