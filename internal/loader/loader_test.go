package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"memopt/internal/stop"
)

// made makes weights of random bytes.
func made(sizes ...int64) (ws []Weight, all [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, n := range sizes {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		all = append(all, b)
		ws = append(ws, Weight{Name: fmt.Sprint("w", i), Bytes: n, From: bytes.NewReader(b)})
	}
	return ws, all
}

// hidden is a device whose memory the processor cannot address.
type hidden struct{ Host }

type unseen struct{ hostMemory }

func (unseen) Bytes() []byte { return nil }

func (h hidden) Take(n int64) (Memory, error) {
	m, err := h.Host.Take(n)
	return unseen{m.(hostMemory)}, err
}

func (h hidden) Copy(moves []Move) error {
	for _, m := range moves {
		copy(m.To.(unseen).hostMemory[m.ToAt:m.ToAt+m.Bytes], m.From.Bytes()[m.FromAt:m.FromAt+m.Bytes])
	}
	return nil
}

// short is a device with a limited number of blocks.
type short struct {
	Host
	left *int
}

var errShort = errors.New("no more")

func (s short) Take(n int64) (Memory, error) {
	if *s.left--; *s.left < 0 {
		return nil, errShort
	}
	return s.Host.Take(n)
}

func (s short) Stage(n int64) (Memory, error) { return s.Take(n) }

// TestEveryModeLoadsEveryByte: odd sizes, weights larger and smaller than the ring, and empty ones;
// and the counted memory stays within the mode's formula, to the byte.
func TestEveryModeLoadsEveryByte(t *testing.T) {
	for _, sizes := range [][]int64{
		{1, 3, 0, 4097, 300_001, 5, 70_000, 70_000},
		{1_000_000},
		{0},
		{256, 512, 131_072, 131_072, 1},
	} {
		ws, all := made(sizes...)
		for _, name := range Modes() {
			for _, chunk := range []int64{64 << 10, 100_000, 1 << 20} {
				for _, d := range []Device{Host{}, hidden{}} {
					mode := Mode(name)
					if _, is := d.(hidden); is && mode == InPlace {
						continue
					}
					t.Run(fmt.Sprintf("%v/%s/%d/%T", sizes, name, chunk, d), func(t *testing.T) {
						const activations = 200_000
						r := NewRecorder()
						r.Use(d)
						s := SizesOf(ws, activations, max(chunk, LeastChunk))
						var on *Loaded
						err := r.Do("all", "", -1, func() (err error) {
							drop := func() {}
							if mode.ActivationsFirst() {
								if drop, err = r.Activations(activations); err != nil {
									return err
								}
							}
							copies, err := ReadAll(context.Background(), ws, mode, r)
							if err != nil {
								return err
							}
							if on, err = Upload(context.Background(), d, ws, Options{Mode: mode, Chunk: chunk}, copies, r); err != nil {
								return err
							}
							if !mode.ActivationsFirst() {
								if drop, err = r.Activations(activations); err != nil {
									return err
								}
							}
							defer drop()
							for i, p := range on.places {
								in := p.In
								var b []byte
								if u, is := in.(unseen); is {
									b = u.hostMemory
								} else {
									b = in.Bytes()
								}
								if !bytes.Equal(b[p.At:p.At+p.Bytes], all[i]) {
									t.Errorf("weight %d of %d bytes is another", i, len(all[i]))
								}
							}
							return nil
						})
						if err != nil {
							t.Fatal(err)
						}
						p := r.Phases()[0]
						if p.Device.High != mode.Device(s) {
							t.Errorf("the device held %d, and %d were promised", p.Device.High, mode.Device(s))
						}
						// Copies are as long as weights, which begin at multiples of 256 on the device.
						if most := mode.High(s); p.Both.High > most || p.Both.High < most-2*256*int64(len(ws)) || p.Copies.High == 0 && p.Both.High != most {
							t.Errorf("both held %d, and %s is %d", p.Both.High, mode.Formula(), most)
						}
						if reads := mode == Lazy || mode == Eager; reads != (p.Copies.High > 0) && s.W > 0 {
							t.Errorf("the host held %d", p.Copies.High)
						}
						on.Free()
						if r.Held() != 0 || r.both.Point != 0 {
							t.Errorf("%d bytes are left, with the host's %d", r.Held(), r.both.Point)
						}
					})
				}
			}
		}
	}
}

// TestFailuresLeaveNothing: if any of its allocations fails, a device holds nothing afterwards.
func TestFailuresLeaveNothing(t *testing.T) {
	ws, _ := made(100_000, 5, 70_000)
	for _, name := range Modes() {
		for blocks := range 7 {
			r, left := NewRecorder(), blocks
			d := short{left: &left}
			r.Use(d)
			copies, err := ReadAll(context.Background(), ws, Mode(name), r)
			if err != nil {
				t.Fatal(err)
			}
			on, err := Upload(context.Background(), d, ws, Options{Mode: Mode(name)}, copies, r)
			if err == nil {
				on.Free()
			} else if !errors.Is(err, errShort) {
				t.Errorf("%s, %d blocks: %v", name, blocks, err)
			}
			if r.both.Point != 0 {
				t.Errorf("%s, %d blocks: %d bytes are left", name, blocks, r.both.Point)
			}
		}
	}
}

// TestGivingUpLeavesNothing: a context that ends while weights are read ends the load.
func TestGivingUpLeavesNothing(t *testing.T) {
	for _, name := range Modes() {
		ctx, cancel := context.WithCancel(context.Background())
		ws, _ := made(300_000, 300_000)
		ws[1].From = canceller{bytes.NewReader(make([]byte, 300_000)), cancel}
		r := NewRecorder()
		r.Use(Host{})
		_, err := stop.When(ctx, func() (any, error) {
			copies, err := ReadAll(ctx, ws, Mode(name), r)
			if err != nil {
				return nil, err
			}
			return Upload(ctx, Host{}, append(ws, ws[0]), Options{Mode: Mode(name), Chunk: LeastChunk}, copies, r)
		})
		if !errors.Is(err, context.Canceled) || r.both.Point != 0 {
			t.Errorf("%s: %v, %d bytes are left", name, err, r.both.Point)
		}
	}
}

type canceller struct {
	*bytes.Reader
	cancel func()
}

func (c canceller) ReadAt(p []byte, off int64) (int, error) {
	c.cancel()
	return c.Reader.ReadAt(p, off)
}

func TestInPlaceNeedsToSee(t *testing.T) {
	ws, _ := made(10)
	r := NewRecorder()
	r.Use(hidden{})
	if _, err := Upload(context.Background(), hidden{}, ws, Options{Mode: InPlace}, nil, r); err == nil || r.Held() != 0 {
		t.Errorf("%v, %d bytes are left", err, r.Held())
	}
}
