// Package loader loads weights from their files to a device, in one of four modes, and measures the
// memory of each phase of a load.
//
//	d := loader.NewHost()                      // or a Vulkan device's memory
//	r := loader.NewRecorder(d)
//	w, err := loader.Upload(ctx, d, weights, loader.Options{Mode: loader.Streamed}, r)
//	defer w.Free()
//
// W is the bytes of all weights, w of the largest, A of activations, c of the ring buffer that
// weights stream through. The most memory of device and host together during a load:
//
//	eager     2W + A + w           all weights are read first, activations are allocated before, copies are freed at the end
//	lazy      max(W + A, W + 2w)   all weights are read first, each copy is freed after its upload
//	streamed  max(W + A, W + c)    chunks of the mapped file pass through the ring; the host holds nothing
//	inplace   W + A                weights are read into device memory that the processor can address
package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/stop"
)

// Mode is how weights reach the device.
type Mode string

// The modes.
const (
	Streamed Mode = "streamed"
	Lazy     Mode = "lazy"
	Eager    Mode = "eager"
	InPlace  Mode = "inplace"
)

// modes is the table of modes.
var modes = []struct {
	mode Mode
	// formula is the most memory of device and host together; high evaluates it.
	formula string
	high    func(s Sizes) int64
	// device is the most memory of the device.
	device func(s Sizes) int64
	upload func(u *upload) error
	// first: activations are allocated before weights.
	first bool
	// reads: all weights are read into memory first.
	reads bool
}{
	{Streamed, "max(W + A, W + c)", func(s Sizes) int64 { return max(s.W+s.A, s.W+s.C) }, func(s Sizes) int64 { return max(s.W+s.A, s.W+s.C) }, (*upload).streamed, false, false},
	{Lazy, "max(W + A, W + 2w)", func(s Sizes) int64 { return max(s.W+s.A, s.W+2*s.Largest) }, func(s Sizes) int64 { return max(s.W+s.A, s.Rise) }, (*upload).lazy, false, true},
	{Eager, "2W + A + w", func(s Sizes) int64 { return 2*s.W + s.A + s.Largest }, func(s Sizes) int64 { return s.W + s.A + s.Largest }, (*upload).eager, true, true},
	{InPlace, "W + A", func(s Sizes) int64 { return s.W + s.A }, func(s Sizes) int64 { return s.W + s.A }, (*upload).inPlace, false, false},
}

// Modes lists the names of all modes.
func Modes() (names []string) {
	for _, m := range modes {
		names = append(names, string(m.mode))
	}
	return names
}

func (m Mode) row() int {
	for i, row := range modes {
		if row.mode == m {
			return i
		}
	}
	panic("loader: no mode is named " + string(m))
}

// Formula is the most memory of device and host together in a mode.
func (m Mode) Formula() string { return modes[m.row()].formula }

// Reads reports whether all weights are read into host memory first.
func (m Mode) Reads() bool { return m != "" && modes[m.row()].reads }

// ActivationsFirst reports whether activations are allocated before weights are uploaded.
func (m Mode) ActivationsFirst() bool { return modes[m.row()].first }

// Sizes are the variables of the formulas, in bytes on the device.
type Sizes struct {
	W       int64 // all weights
	Largest int64 // w
	A       int64 // activations, inputs and work space
	C       int64 // the ring; no larger than W
	Rise    int64 // most bytes when weights are uploaded one by one through staging memory of their size: at most W + w
}

// High is the most memory of device and host together.
func (m Mode) High(s Sizes) int64 { return modes[m.row()].high(s) }

// Beside is the most memory that a load takes beside weights and activations, before either is there in full. whole says
// that the memory of all weights is taken when the load begins.
func (m Mode) Beside(s Sizes, whole bool) int64 {
	high := m.High(s)
	if whole && m == Lazy && s.W > 0 {
		high = max(high, 2*s.W+s.Largest)
	}
	return high - s.W - s.A
}

// Device is the most memory of the device.
func (m Mode) Device(s Sizes) int64 { return modes[m.row()].device(s) }

// align is the alignment of weights.
const align = 256

// aligned rounds n up to it.
func aligned(n int64) int64 { return (n + align - 1) / align * align }

// Weight is one weight; From, usually a file, may have a method ReleasePages.
type Weight struct {
	Name  string
	Bytes int64
	From  interface {
		ReadAt(p []byte, off int64) (int, error)
	}
}

// release releases the pages of the file that were read.
func (w Weight) release() {
	if p, ok := w.From.(interface{ ReleasePages() }); ok {
		p.ReleasePages()
	}
}

func (w Weight) read(p []byte, off int64) error {
	if n, err := w.From.ReadAt(p, off); n < len(p) {
		return fmt.Errorf("weight %q: %d bytes at %d: %w", w.Name, len(p), off, err)
	}
	return nil
}

// SizesOf computes the sizes of weights, with a ring of c bytes.
func SizesOf(ws []Weight, activations, c int64) Sizes {
	s := Sizes{A: activations}
	for _, w := range ws {
		s.W += aligned(w.Bytes)
		s.Largest = max(s.Largest, aligned(w.Bytes))
		s.Rise = max(s.Rise, s.W+aligned(w.Bytes))
	}
	s.C = min(c, s.W)
	return s
}

// Memory is a block of memory.
type Memory interface {
	Bytes() []byte // nil: the processor cannot address it
	Granted() int64
	Free()
}

// Move is a copy on the device.
type Move struct {
	From   Memory
	FromAt int64
	To     Memory
	ToAt   int64
	Bytes  int64
}

// Device is the device to load to.
type Device interface {
	Name() string
	// Unified reports whether its memory is the machine's own, like the process's.
	Unified() bool
	// Take allocates memory of the device; Stage memory that the processor writes and the device
	// copies from.
	Take(n int64) (Memory, error)
	Stage(n int64) (Memory, error)
	// Copy executes moves and waits for them.
	Copy([]Move) error
	// Driver is the driver's count of this process's memory, and its budget; ok is false if it does
	// not say.
	Driver() (usage, budget int64, ok bool)
	Close() error
}

// DefaultChunk is the default size of the ring.
const DefaultChunk = 16 << 20

// Options of a load.
type Options struct {
	Mode  Mode
	Chunk int64 // bytes of the ring; 0: DefaultChunk

	given []Place // where the weights go, in their order; nil: to memory that the load takes
	whole bool    // that memory is taken as a whole
}

func (o Options) chunk() int64 {
	if o.Chunk <= 0 {
		return DefaultChunk
	}
	return max(o.Chunk, LeastChunk)
}

// LeastChunk is the least size of the ring: in smaller chunks the calls would dominate.
const LeastChunk = 64 << 10

// Loaded is loaded weights.
type Loaded struct {
	places []Place // in the order of the weights
	blocks []*held
}

// Place is the position of a weight.
type Place struct {
	In        Memory
	At, Bytes int64
}

// Free frees the memory.
func (l *Loaded) Free() {
	for _, b := range l.blocks {
		b.free()
	}
	l.blocks, l.places = nil, nil
}

// HostCopies is copies of all weights in host memory, for modes that read everything first.
type HostCopies struct{ copies []*held }

// upload is a load in progress.
type upload struct {
	ctx    context.Context
	d      Device
	ws     []Weight
	o      Options
	r      *Recorder
	copies *HostCopies
	out    *Loaded
}

// ReadAll reads all weights into memory if the mode requires it, else it returns nil.
func ReadAll(ctx context.Context, ws []Weight, m Mode, r *Recorder) (*HostCopies, error) {
	if !modes[m.row()].reads {
		return nil, nil
	}
	h, read := &HostCopies{}, false
	defer func() { // after an error, or a panic when the context ends
		if !read {
			h.Free()
		}
	}()
	for _, w := range ws {
		stop.Poll(ctx)
		b, err := r.host(w.Bytes)
		if err != nil {
			return nil, err
		}
		h.copies = append(h.copies, b)
		if err := inPieces(w, func(at int64, n int64) error { return w.read(b.Bytes()[at:at+n], at) }); err != nil {
			return nil, err
		}
	}
	read = true
	return h, nil
}

// Free frees the remaining copies.
func (h *HostCopies) Free() {
	if h == nil {
		return
	}
	for _, b := range h.copies {
		b.free()
	}
	h.copies = nil
}

// inPieces calls f for consecutive pieces of a weight, and releases the file's pages after each.
func inPieces(w Weight, f func(at, n int64) error) error {
	const most = 4 << 20
	for at := int64(0); at < w.Bytes; at += most {
		if err := f(at, min(most, w.Bytes-at)); err != nil {
			return err
		}
		w.release()
	}
	return nil
}

// Upload loads weights to the device. copies is the result of ReadAll. If it fails, nothing is left
// on the device.
func Upload(ctx context.Context, d Device, ws []Weight, o Options, copies *HostCopies, r *Recorder) (*Loaded, error) {
	u := &upload{ctx: ctx, d: d, ws: ws, o: o, r: r, copies: copies, out: &Loaded{}}
	defer copies.Free()
	loaded := false
	defer func() { // after an error, or a panic when the context ends
		if !loaded {
			u.out.Free()
		}
	}()
	if err := modes[o.Mode.row()].upload(u); err != nil {
		return nil, err
	}
	loaded = true
	return u.out, nil
}

// whole allocates one block for all weights, unless they have places, and returns their bytes.
func (u *upload) whole() (total int64, err error) {
	if u.o.given != nil {
		for _, w := range u.ws {
			total += w.Bytes
		}
		u.out.places = u.o.given
		u.r.count("weights", total, total)
		return total, nil
	}
	for _, w := range u.ws {
		u.out.places = append(u.out.places, Place{At: total, Bytes: w.Bytes})
		total += aligned(w.Bytes)
	}
	b, err := u.r.take("weights", total)
	if err != nil {
		return 0, err
	}
	u.out.blocks = append(u.out.blocks, b)
	for i := range u.out.places {
		u.out.places[i].In = b.Memory
	}
	return total, nil
}

// streamed uploads chunks through the two halves of a ring: one is filled while the other is
// copied. A plan's places that the processor can address need no ring.
func (u *upload) streamed() (err error) {
	if u.o.given != nil && !outOfReach(u.o.given) {
		return u.inPlace()
	}
	n, err := u.whole()
	if err != nil {
		return err
	}
	half := u.o.chunk() / 2
	if n < 2*half {
		half = (n + 1) / 2
	}
	half = max(half/4*4, 4)
	ring, err := u.r.stage(2 * half)
	if err != nil {
		return err
	}
	defer ring.free()
	u.r.uploading()
	room := ring.Bytes()
	if room == nil {
		return errors.New("the processor cannot address the memory for staging weights")
	}
	var moves []Move
	at, used := int64(0), int64(0) // of the half that is being filled
	copied := make(chan error, 1)
	copied <- nil // the other half is free
	flush := func() error {
		if len(moves) == 0 {
			return nil
		}
		if err := <-copied; err != nil {
			copied <- nil
			return err
		}
		batch := moves
		go func() { copied <- u.d.Copy(batch) }()
		moves, at, used = nil, half-at, 0
		return nil
	}
	defer func() { err = errors.Join(err, <-copied) }() // wait: the copy reads from the ring
	for i, w := range u.ws {
		for off := int64(0); off < w.Bytes; {
			stop.Poll(u.ctx)
			if half-used < 4 {
				if err := flush(); err != nil {
					return err
				}
			}
			n := min(w.Bytes-off, (half-used)/4*4)
			if err := w.read(room[at+used:at+used+n], off); err != nil {
				return err
			}
			w.release()
			moves = append(moves, Move{ring.Memory, at + used, u.out.places[i].In, u.out.places[i].At + off, n})
			off += n
			used = min(half, (used+n+3)/4*4)
		}
	}
	return flush()
}

// inPlace reads into the device's memory.
func (u *upload) inPlace() error {
	if _, err := u.whole(); err != nil {
		return err
	}
	u.r.uploading()
	if outOfReach(u.out.places) {
		return &UnsuitedError{InPlace, u.d.Name() + " has memory that the processor cannot address, as mode inplace requires; use mode streamed"}
	}
	for i, w := range u.ws {
		at, room := u.out.places[i].At, u.out.places[i].In.Bytes()
		if err := inPieces(w, func(off, n int64) error {
			stop.Poll(u.ctx)
			return w.read(room[at+off:at+off+n], off)
		}); err != nil {
			return err
		}
	}
	return nil
}

// outOfReach reports whether the processor cannot address a place.
func outOfReach(places []Place) bool {
	return slices.ContainsFunc(places, func(p Place) bool { return p.Bytes > 0 && p.In.Bytes() == nil })
}

// lazy allocates device memory weight by weight, and frees each copy after its upload.
func (u *upload) lazy() error {
	if u.o.whole {
		if _, err := u.whole(); err != nil {
			return err
		}
	}
	u.r.uploading()
	for i, w := range u.ws {
		stop.Poll(u.ctx)
		err := u.staged(i, func() (Place, error) {
			switch {
			case u.o.whole:
				return u.o.given[i], nil
			case u.o.given != nil:
				u.r.count("weights", w.Bytes, w.Bytes)
				return u.o.given[i], nil
			}
			to, err := u.r.take("weights", aligned(w.Bytes))
			if err != nil {
				return Place{}, err
			}
			u.out.blocks = append(u.out.blocks, to)
			u.out.places = append(u.out.places, Place{In: to.Memory, Bytes: w.Bytes})
			return u.out.places[i], nil
		})
		if err != nil {
			return err
		}
		u.copies.copies[i].free()
	}
	return nil
}

// eager allocates device memory for all weights, and frees the copies at the end.
func (u *upload) eager() error {
	if _, err := u.whole(); err != nil {
		return err
	}
	u.r.uploading()
	for i := range u.ws {
		stop.Poll(u.ctx)
		if err := u.staged(i, func() (Place, error) { return u.out.places[i], nil }); err != nil {
			return err
		}
	}
	u.copies.Free()
	return nil
}

// staged uploads a weight through staging memory of its size.
func (u *upload) staged(i int, place func() (Place, error)) error {
	n := u.ws[i].Bytes
	if u.o.given == nil {
		n = aligned(n)
	}
	stage, err := u.r.stage(n)
	if err != nil {
		return err
	}
	defer stage.free()
	copy(stage.Bytes(), u.copies.copies[i].Bytes())
	to, err := place()
	if err != nil {
		return err
	}
	return u.d.Copy([]Move{{stage.Memory, 0, to.In, to.At, u.ws[i].Bytes}})
}

// UnsuitedError is the error that a mode does not suit a device.
type UnsuitedError struct {
	Mode Mode
	Why  string
}

func (e *UnsuitedError) Error() string { return e.Why }

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	if !slices.Contains(Modes(), s) {
		return "", fmt.Errorf("mode %q is not one of %s", s, strings.Join(Modes(), ", "))
	}
	return Mode(s), nil
}
