// Package loader brings weights from their files to a device, in one of four modes, and
// counts what that takes: the table of phases of a load.
//
//	d := loader.NewHost()                      // or a Vulkan device's memory
//	r := loader.NewRecorder(d)
//	w, err := loader.Upload(ctx, d, weights, loader.Options{Mode: loader.Streamed}, r)
//	defer w.Free()
//
// W is all weights, w the largest, A the activations, c the ring that weights stream through. What a load takes
// at most, device and host together:
//
//	eager     2W + A + w           everything is read, activations are there first, copies are dropped at the end
//	lazy      max(W + A, W + 2w)   everything is read, each weight's copy is dropped once it is uploaded
//	streamed  max(W + A, W + c)    pieces of the mapped file go through the ring; the host holds nothing
//	inplace   W + A                read into memory that the processor sees too
package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/memopt/stop"
)

// Mode is how weights get to the device.
type Mode string

// The modes.
const (
	Streamed Mode = "streamed"
	Lazy     Mode = "lazy"
	Eager    Mode = "eager"
	InPlace  Mode = "inplace"
)

// modes is the table of them.
var modes = []struct {
	mode Mode
	// formula is the most that device and host hold together, and high works it out.
	formula string
	high    func(s Sizes) int64
	// device is the most of it that the device holds.
	device func(s Sizes) int64
	upload func(u *upload) error
	// first says that activations are there before weights.
	first bool
	// reads says that all weights are read into memory before.
	reads bool
}{
	{Streamed, "max(W + A, W + c)", func(s Sizes) int64 { return max(s.W+s.A, s.W+s.C) }, func(s Sizes) int64 { return max(s.W+s.A, s.W+s.C) }, (*upload).streamed, false, false},
	{Lazy, "max(W + A, W + 2w)", func(s Sizes) int64 { return max(s.W+s.A, s.W+2*s.Largest) }, func(s Sizes) int64 { return max(s.W+s.A, s.Rise) }, (*upload).lazy, false, true},
	{Eager, "2W + A + w", func(s Sizes) int64 { return 2*s.W + s.A + s.Largest }, func(s Sizes) int64 { return s.W + s.A + s.Largest }, (*upload).eager, true, true},
	{InPlace, "W + A", func(s Sizes) int64 { return s.W + s.A }, func(s Sizes) int64 { return s.W + s.A }, (*upload).inPlace, false, false},
}

// Modes are the names of all modes.
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

// Formula is the most that device and host hold together while a mode loads.
func (m Mode) Formula() string { return modes[m.row()].formula }

// ActivationsFirst says that activations are bound before weights are uploaded.
func (m Mode) ActivationsFirst() bool { return modes[m.row()].first }

// Sizes are what the formulas are of, in bytes as they lie on the device.
type Sizes struct {
	W       int64 // all weights
	Largest int64 // w
	A       int64 // activations, inputs and work space
	C       int64 // the ring; no larger than W
	Rise    int64 // of weights that come one by one, the most with what each passes through: at most W + w
}

// High is the most that device and host hold together.
func (m Mode) High(s Sizes) int64 { return modes[m.row()].high(s) }

// Device is the most that the device holds.
func (m Mode) Device(s Sizes) int64 { return modes[m.row()].device(s) }

// align is where weights begin: a multiple of it.
const align = 256

// aligned is the room that n bytes take.
func aligned(n int64) int64 { return (n + align - 1) / align * align }

// Weight is the numbers of one, which a file mostly holds. From may have a method ReleasePages.
type Weight struct {
	Name  string
	Bytes int64
	From  interface {
		ReadAt(p []byte, off int64) (int, error)
	}
}

// release lets go of the pages of the file that reading brought in.
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

// SizesOf are those of weights, with a ring of c bytes.
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

// Memory is a block of it.
type Memory interface {
	Bytes() []byte // as the processor sees it; nil where it does not
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

// Device is where weights go.
type Device interface {
	Name() string
	// Unified says that its memory is the machine's own, where the process's is too.
	Unified() bool
	// Take gives memory of the device's, and Stage such that the processor writes and the device copies from.
	Take(n int64) (Memory, error)
	Stage(n int64) (Memory, error)
	// Copy carries moves out and waits for them.
	Copy([]Move) error
	// Driver is what the driver says that this process uses, and may use; ok is false where it does not say.
	Driver() (usage, budget int64, ok bool)
	Close() error
}

// DefaultChunk is the ring of streamed loads.
const DefaultChunk = 16 << 20

// Options of a load.
type Options struct {
	Mode  Mode
	Chunk int64 // bytes of the ring; 0 is DefaultChunk
}

func (o Options) chunk() int64 {
	if o.Chunk <= 0 {
		return DefaultChunk
	}
	return max(o.Chunk, LeastChunk)
}

// LeastChunk is the least ring: below that each copy is more call than copy.
const LeastChunk = 64 << 10

// Loaded is weights on a device.
type Loaded struct {
	places []place // in the order of the weights
	blocks []*held
}

// place is where a weight is.
type place struct {
	In        Memory
	At, Bytes int64
}

// Free gives the memory back.
func (l *Loaded) Free() {
	for _, b := range l.blocks {
		b.free()
	}
	l.blocks, l.places = nil, nil
}

// HostCopies are weights as the modes that read everything hold them.
type HostCopies struct{ copies []*held }

// upload is one load going on.
type upload struct {
	ctx    context.Context
	d      Device
	ws     []Weight
	o      Options
	r      *Recorder
	copies *HostCopies
	out    *Loaded
}

// ReadAll reads all weights into memory, where the mode does that before anything else; nil where it does not.
func ReadAll(ctx context.Context, ws []Weight, m Mode, r *Recorder) (*HostCopies, error) {
	if !modes[m.row()].reads {
		return nil, nil
	}
	h, read := &HostCopies{}, false
	defer func() { // by an error, or by whoever ends the context
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

// Free gives back those that are left.
func (h *HostCopies) Free() {
	if h == nil {
		return
	}
	for _, b := range h.copies {
		b.free()
	}
	h.copies = nil
}

// inPieces calls f for pieces of a weight one after the other, and lets go of the file's pages after each.
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

// Upload brings weights to the device. copies are what ReadAll gave. Where it fails nothing is left there.
func Upload(ctx context.Context, d Device, ws []Weight, o Options, copies *HostCopies, r *Recorder) (*Loaded, error) {
	u := &upload{ctx: ctx, d: d, ws: ws, o: o, r: r, copies: copies, out: &Loaded{}}
	defer copies.Free()
	loaded := false
	defer func() { // by an error, or by whoever ends the context
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

// whole takes one block for all weights, each at its place.
func (u *upload) whole() (*held, error) {
	total := int64(0)
	for _, w := range u.ws {
		u.out.places = append(u.out.places, place{At: total, Bytes: w.Bytes})
		total += aligned(w.Bytes)
	}
	b, err := u.r.take("weights", total)
	if err != nil {
		return nil, err
	}
	u.out.blocks = append(u.out.blocks, b)
	for i := range u.out.places {
		u.out.places[i].In = b.Memory
	}
	return b, nil
}

// streamed sends pieces through the two halves of a ring: while one is copied the other is filled.
func (u *upload) streamed() (err error) {
	to, err := u.whole()
	if err != nil {
		return err
	}
	half := u.o.chunk() / 2
	if n := to.requested; n < 2*half {
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
		return errors.New("the processor does not see the memory that weights are staged in")
	}
	var moves []Move
	at, used := int64(0), int64(0) // of the half being filled
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
	defer func() { err = errors.Join(err, <-copied) }() // nothing may copy from memory that is given back
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
			moves = append(moves, Move{ring.Memory, at + used, to.Memory, u.out.places[i].At + off, n})
			off += n
			used = min(half, (used+n+3)/4*4)
		}
	}
	return flush()
}

// inPlace reads straight into the device's memory.
func (u *upload) inPlace() error {
	to, err := u.whole()
	if err != nil {
		return err
	}
	u.r.uploading()
	room := to.Bytes()
	if room == nil {
		return &UnsuitedError{InPlace, u.d.Name() + " has memory that the processor does not see, and in place is only where it does; take mode streamed"}
	}
	for i, w := range u.ws {
		at := u.out.places[i].At
		if err := inPieces(w, func(off, n int64) error {
			stop.Poll(u.ctx)
			return w.read(room[at+off:at+off+n], off)
		}); err != nil {
			return err
		}
	}
	return nil
}

// lazy takes memory of the device weight by weight, and drops each one's copy at once.
func (u *upload) lazy() error {
	u.r.uploading()
	for i, w := range u.ws {
		stop.Poll(u.ctx)
		to, err := u.staged(i, func() (*held, int64, error) {
			to, err := u.r.take("weights", aligned(w.Bytes))
			if err == nil {
				u.out.blocks = append(u.out.blocks, to)
			}
			return to, 0, err
		})
		if err != nil {
			return err
		}
		u.out.places = append(u.out.places, place{In: to.Memory, Bytes: w.Bytes})
		u.copies.copies[i].free()
	}
	return nil
}

// eager has memory of the device for all weights, and drops the copies at the end.
func (u *upload) eager() error {
	all, err := u.whole()
	if err != nil {
		return err
	}
	u.r.uploading()
	for i := range u.ws {
		stop.Poll(u.ctx)
		if _, err := u.staged(i, func() (*held, int64, error) { return all, u.out.places[i].At, nil }); err != nil {
			return err
		}
	}
	u.copies.Free()
	return nil
}

// staged brings the copy of a weight to its place by memory of its own size.
func (u *upload) staged(i int, place func() (*held, int64, error)) (*held, error) {
	stage, err := u.r.stage(aligned(u.ws[i].Bytes))
	if err != nil {
		return nil, err
	}
	defer stage.free()
	copy(stage.Bytes(), u.copies.copies[i].Bytes())
	to, at, err := place()
	if err != nil {
		return nil, err
	}
	return to, u.d.Copy([]Move{{stage.Memory, 0, to.Memory, at, u.ws[i].Bytes}})
}

// UnsuitedError says why a device has no use for a mode.
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
