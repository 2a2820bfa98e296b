package memopt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/memopt/forward"
	"memopt/memopt/session"
)

// TestBoundInAnyOrder: bindings, clears, updates, shrinks, drops of buffers and runs come in any order, of two sessions that
// have buffers together, under a limit or none. A run gives the numbers of a session with nothing bound, or an error, and the
// next one is served; at the end nothing is held that was bound.
func TestBoundInAnyOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, device string) {
		const width = 16
		paths := []string{squares(t, width, 1, 3), squares(t, width, 2, 3)}
		plain := []*session.Session{openOn(t, "cpu", paths[0]), openOn(t, "cpu", paths[1])}
		for seed := range uint64(6) {
			limit := int64(0)
			if seed%2 == 1 {
				limit = 40 << 10
			}
			h := &anyOrder{t: t, rng: rand.New(rand.NewPCG(seed, 77)), width: width, plain: plain, device: device}
			for _, path := range paths {
				c := configs.Default()
				c.Device, c.MemoryLimit, c.MaxPatterns = device, limit, 2
				s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
				if err != nil {
					t.Fatal(err)
				}
				h.sessions, h.bindings = append(h.sessions, s), append(h.bindings, s.NewBinding())
				h.bound = append(h.bound, boundNow{})
			}
			for step := range 400 {
				h.what = fmt.Sprintf("seed %d, step %d", seed, step)
				h.step()
			}
			if h.ran < 10 {
				t.Errorf("seed %d: only %d runs gave numbers", seed, h.ran)
			}
			for _, b := range h.buffers {
				b.Drop()
			}
			for _, b := range h.bindings {
				b.ClearInputs()
				b.ClearOutputs()
			}
			for i, s := range h.sessions {
				s.Release()
				s.Shrink()
				if n := s.Stats().Owners["buffers"]; n != 0 {
					t.Errorf("seed %d: session %d holds %d bytes of buffers at the end", seed, i, n)
				}
				if err := s.Close(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
	})
}

// boundNow is what a binding has.
type boundNow struct {
	x       []float32       // the input's numbers; nil: none, or what nobody knows
	rows    int             // of the input
	in      *graph.Tensor   // of the host, where a run sees what is written there
	outputs map[string]bool // bound
}

type anyOrder struct {
	t        *testing.T
	rng      *rand.Rand
	width    int
	device   string
	what     string
	plain    []*session.Session
	sessions []*session.Session
	bindings []*session.Binding
	bound    []boundNow
	buffers  []session.Buffer
	ran      int
}

// numbers are the rows' inputs.
func (h *anyOrder) numbers(rows int) *graph.Tensor {
	return fillWith(graph.NewTensor(graph.Float32, rows, h.width), h.rng.Uint64())
}

func (h *anyOrder) step() {
	i := h.rng.IntN(2)
	b, now := h.bindings[i], &h.bound[i]
	rows := []int{1, 3, 4, 64, 65}[h.rng.IntN(5)]
	// An error is of memory, or of what is wrong, and the binding stays as it was.
	switch n := h.rng.IntN(14); n {
	case 0, 1: // host memory, whole pages or not
		x := hostTensor(h.t, rows, h.width)
		copy(x.Bytes, h.numbers(rows).Bytes)
		when := session.When(session.Whens()[h.rng.IntN(4)])
		if err := b.Host("x", x, when); err == nil {
			*now = boundNow{x: slices.Clone(x.F32()), rows: rows, in: x, outputs: now.outputs}
			if when == session.AtBind && h.device != "cpu" {
				now.in = nil
			}
		} else if rows == 64 && when == session.Import && now.rows >= 0 && limitOf(h.sessions[i]) == 0 {
			h.t.Errorf("%s: whole pages are not imported: %v", h.what, err)
		}
	case 2, 3: // a buffer
		buffer := h.buffer(i, rows)
		if buffer == nil {
			return
		}
		at := int64(h.rng.IntN(3)) * 32
		x := h.numbers(rows)
		if buffer.Len() < at+int64(len(x.Bytes)) {
			if err := b.Device("x", x, session.Place{Buffer: buffer, At: at}); err == nil {
				h.t.Errorf("%s: %d bytes at %d are in a buffer of %d", h.what, len(x.Bytes), at, buffer.Len())
			}
			return
		}
		if err := b.Device("x", x, session.Place{Buffer: buffer, At: at}); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
		if err := b.Update("x", x.Bytes); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
		*now = boundNow{x: slices.Clone(x.F32()), rows: rows, outputs: now.outputs}
		h.clobber(i) // others may be bound there
	case 4: // numbers anew, where it is
		if now.x == nil {
			if err := b.Update("nonsuch", nil); err == nil {
				h.t.Errorf("%s: an input that is not bound is updated", h.what)
			}
			return
		}
		x := h.numbers(now.rows)
		if err := b.Update("x", x.Bytes); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
		now.x = slices.Clone(x.F32())
		h.clobber(i)
	case 5: // what the host writes is seen, unless it was copied when it was bound
		if now.in != nil {
			copy(now.in.Bytes, h.numbers(now.rows).Bytes)
			now.x = slices.Clone(now.in.F32())
		}
	case 6, 7: // outputs
		name := []string{"y", "z"}[h.rng.IntN(2)]
		cols := map[string]int{"y": h.width, "z": 1}[name]
		var err error
		switch h.rng.IntN(4) {
		case 0:
			err = b.Output(name, session.Room(h.rng.IntN(3)))
		case 1:
			err = b.OutputHost(name, hostTensor(h.t, 65, cols), session.AtMost, session.Auto)
		case 2:
			err = b.OutputHost(name, hostTensor(h.t, rows, cols), session.Exact, session.AtRun)
		case 3:
			buffer := h.buffer(i, 65)
			if buffer == nil {
				return
			}
			at := int64(h.rng.IntN(2)) * 4
			err = b.OutputDevice(name, &graph.Tensor{Type: graph.Float32, Shape: []int{rows, cols}}, session.Place{Buffer: buffer, At: at}, session.AtMost)
			if err != nil && buffer.Len() >= at+int64(4*rows*cols) {
				h.t.Errorf("%s: %v", h.what, err)
			}
			h.forgetAll() // a run may write over what inputs are bound to
		}
		if err == nil {
			if now.outputs == nil {
				now.outputs = map[string]bool{}
			}
			now.outputs[name] = true
		}
	case 8:
		b.ClearInputs()
		*now = boundNow{outputs: now.outputs}
	case 9:
		b.ClearOutputs()
		now.outputs = nil
	case 10:
		h.sessions[i].Shrink()
		h.sessions[i].Release()
	case 11: // a buffer that may be bound is somebody else's use less
		if len(h.buffers) > 0 {
			k := h.rng.IntN(len(h.buffers))
			h.buffers[k].Drop()
			h.buffers = slices.Delete(h.buffers, k, k+1)
		}
	default:
		h.run(i)
	}
}

// clobber forgets what the other binding's input is, if it may lie in the same buffer.
func (h *anyOrder) clobber(i int) {
	if o := &h.bound[1-i]; o.in == nil {
		o.x = nil
	}
}

func (h *anyOrder) forgetAll() {
	for i := range h.bound {
		h.bound[i].x = nil
	}
}

func limitOf(s *session.Session) int64 { return s.Stats().Limit }

// buffer is one that is there, or a new one; nil where there is no memory for it.
func (h *anyOrder) buffer(i, rows int) session.Buffer {
	if len(h.buffers) > 2 || len(h.buffers) > 0 && h.rng.IntN(2) == 0 {
		return h.buffers[h.rng.IntN(len(h.buffers))]
	}
	make := h.sessions[i].NewBuffer
	if h.rng.IntN(3) == 0 {
		make = h.sessions[i].NewHostBuffer
	}
	buffer, err := make(int64(4*rows*h.width + 128))
	if err != nil {
		if limitOf(h.sessions[i]) == 0 {
			h.t.Errorf("%s: %v", h.what, err)
		}
		return nil
	}
	h.buffers = append(h.buffers, buffer)
	return buffer
}

// run runs what is bound and holds it against the plain session.
func (h *anyOrder) run(i int) {
	b, now := h.bindings[i], &h.bound[i]
	r, _, err := b.Run(context.Background(), session.RunOptions{Shrink: h.rng.IntN(4) == 0})
	// Outputs may have been written over inputs.
	x := now.x
	if len(now.outputs) > 0 {
		defer func() { h.forgetBuffered() }()
	}
	if err != nil {
		said := err.Error()
		switch {
		case strings.Contains(said, "inputs are missing"), strings.Contains(said, "is bound as"), strings.Contains(said, "out of memory"),
			strings.Contains(said, "both are bound to buffers"), strings.Contains(said, "it takes"):
		default:
			h.t.Errorf("%s: %v", h.what, err)
		}
		return
	}
	if now, _ := heldBy(h.sessions[i]); limitOf(h.sessions[i]) > 0 && now > limitOf(h.sessions[i]) {
		h.t.Errorf("%s: %d bytes are held, above the limit", h.what, now)
	}
	if x == nil {
		return
	}
	want, err := h.plain[i].Run(context.Background(), map[string]*graph.Tensor{"x": {Type: graph.Float32, Shape: []int{now.rows, h.width}, Bytes: bytesOfFloats(x)}}, nil, session.RunOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, out := range r.Outputs {
		for _, w := range want.Outputs {
			if w.Name != out.Name {
				continue
			}
			got := graph.NewTensor(graph.Float32, out.Shape...)
			if now.outputs[out.Name] {
				err = b.Read(out.Name, got.Bytes)
			} else {
				copy(got.Bytes, out.Bytes)
			}
			if err != nil {
				h.t.Fatalf("%s: %v", h.what, err)
			}
			if !slices.Equal(got.Shape, w.Shape) || !closeTo(got.F32(), w.F32()) {
				h.t.Fatalf("%s: output %s is not that of the same input with nothing bound (%v)", h.what, out.Name, r.Copies)
			}
			h.ran++
		}
	}
}

// forgetBuffered forgets inputs that may lie where outputs were written.
func (h *anyOrder) forgetBuffered() {
	for i := range h.bound {
		if h.bound[i].in == nil {
			h.bound[i].x = nil
		}
	}
}

func bytesOfFloats(x []float32) []byte {
	t := graph.NewTensor(graph.Float32, len(x))
	copy(t.F32(), x)
	return t.Bytes
}

func closeTo(a, b []float32) bool {
	for i := range a {
		if d := a[i] - b[i]; d > 1e-4 || d < -1e-4 || d != d {
			return false
		}
	}
	return len(a) == len(b)
}
