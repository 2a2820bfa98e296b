package cpu_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/spill"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/profile"
)

// elsewhere is memory that values are moved to, with a delay before and an error at any copy. It holds copies against each
// other: what is read was written, as a whole.
type elsewhere struct {
	bytes  []byte
	delay  func()
	fail   func(write bool) error
	mu     sync.Mutex
	closed bool
}

func (e *elsewhere) WriteAt(b []byte, at int64) (int, error) { return e.copied(true, e.bytes[at:], b) }
func (e *elsewhere) ReadAt(b []byte, at int64) (int, error) {
	return e.copied(false, b, e.bytes[at:at+int64(len(b))])
}

func (e *elsewhere) copied(write bool, to, from []byte) (int, error) {
	if e.delay != nil {
		e.delay()
	}
	if e.fail != nil {
		if err := e.fail(write); err != nil {
			return 0, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, io.ErrClosedPipe
	}
	return copy(to, from), nil
}

func (e *elsewhere) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

// movedStep is a plan of a random step that moves values within a random budget, or nil.
func movedStep(t *rapid.T, g *graph.Graph, dims map[string]int64) *planner.Plan {
	prices, err := profile.For("xeon-core")
	if err != nil {
		t.Fatal(err)
	}
	prices.Copies = map[string]profile.Copies{profile.Disk: {Delay: 1, Out: 100, In: 100}}
	r := planner.Request{Dims: dims, Profile: prices, Elsewhere: &planner.Elsewhere{Place: profile.Disk}}
	plain := plan(t, g, r)
	r.ActivationBudget.Bytes = plain.Floor.Peak + (plain.Arena-plain.Floor.Peak)*rapid.Int64Range(0, 99).Draw(t, "percent")/100
	p, err := planner.Make(g, r)
	var none *planner.BudgetError
	if errors.As(err, &none) {
		r.ActivationBudget.Bytes = none.Best
		p, err = planner.Make(g, r)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	if len(p.Moves) == 0 {
		return nil
	}
	return p
}

// TestMovesSameBits: what a plan moves elsewhere changes no bit, whether copies end as late as they may, as early, or at any
// time between, in memory or in a file; and the step uses what was promised on both sides.
func TestMovesSameBits(t *testing.T) {
	moved, folder := 0, t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		g := randomStep(t)
		dims := map[string]int64{"batch": rapid.Int64Range(1, 40).Draw(t, "batch")}
		p := movedStep(t, g, dims)
		if p == nil {
			return
		}
		moved++
		want := run(t, plan(t, g, planner.Request{Dims: dims}), cpu.Options{Poison: true, Workers: 1})
		random := rand.New(rand.NewPCG(uint64(moved), 0))
		var mu sync.Mutex
		delay := func() {
			mu.Lock()
			n := random.IntN(200)
			mu.Unlock()
			time.Sleep(time.Duration(n) * time.Microsecond)
		}
		for when, o := range map[string]cpu.Options{
			"at the last moment": {Poison: true, Workers: 2},
			"at any time":        {Workers: 2, Far: func(n int64) (cpu.Far, error) { return &elsewhere{bytes: make([]byte, n), delay: delay}, nil }},
			"in a file":          {Workers: 2, Far: func(n int64) (cpu.Far, error) { return spill.Open(folder, n) }},
		} {
			if o.Far == nil {
				o.Far = func(n int64) (cpu.Far, error) { return &elsewhere{bytes: make([]byte, n)}, nil }
			}
			sameResults(t, fmt.Sprintf("when %d values are moved %s", len(p.Moves), when), run(t, p, o), want, g)
		}
	})
	t.Logf("%d plans moved values", moved)
	if moved == 0 && !testing.Short() {
		t.Error("no plan moved anything")
	}
}

// TestMovesPassByPass: so it is where the passes are run apart.
func TestMovesPassByPass(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		g, _ := randomForward(t)
		step, err := autograd.TrainStep(g, autograd.Options{KeepGrads: true, Results: []string{g.Outputs[0].Name}})
		if err != nil {
			t.Fatal(err)
		}
		dims := map[string]int64{"batch": rapid.Int64Range(1, 40).Draw(t, "batch")}
		p := movedStep(t, step, dims)
		if p == nil {
			return
		}
		moved++
		want := passes(t, plan(t, step, planner.Request{Dims: dims}), plan(t, step, planner.Request{Dims: dims}).Schedule, cpu.Options{Poison: true, Workers: 1}, nil)
		for _, poison := range []bool{true, false} {
			o := cpu.Options{Poison: poison, Workers: 2, Far: func(n int64) (cpu.Far, error) { return &elsewhere{bytes: make([]byte, n)}, nil }}
			sameResults(t, "pass by pass with moves", passes(t, p, p.Schedule, o, nil), want, step)
		}
	})
	t.Logf("%d plans moved values", moved)
}

// deepStep is a step that is wide and deep enough for moves, with its plan.
func deepStep(t testing.TB) *planner.Plan {
	step, err := zoo.Step(zoo.Spec{Family: "gpt", Layers: 3, Width: 32, Heads: 2, Vocab: 50}, kernels.Library, autograd.Options{KeepGrads: true})
	if err != nil {
		t.Fatal(err)
	}
	prices, err := profile.For("xeon-core")
	if err != nil {
		t.Fatal(err)
	}
	prices.Copies = map[string]profile.Copies{profile.Disk: {Delay: 1, Out: 1000, In: 1000}}
	r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 24}, Profile: prices, Elsewhere: &planner.Elsewhere{Place: profile.Disk}, ActivationBudget: planner.Size{Percent: 50}}
	p, err := planner.Make(step, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Moves) == 0 {
		t.Fatal("the plan moves nothing")
	}
	return p
}

// opened is a device for a plan with a place elsewhere, and that place.
func opened(t testing.TB, p *planner.Plan, far *elsewhere) *cpu.Device {
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, cpu.Options{Workers: 1, Far: func(n int64) (cpu.Far, error) {
		if n != p.Moved.Peak {
			t.Errorf("%d bytes are asked for elsewhere, the plan says %d", n, p.Moved.Peak)
		}
		far.bytes = make([]byte, n)
		return far, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tokens are inputs whose whole numbers are indices.
func tokens(p *planner.Plan) map[string]*graph.Tensor {
	in := inputs(p)
	for _, x := range in {
		for i := range x.Len() {
			if !x.Type.IsFloat() {
				x.SetInt(i, int64(i%7))
			}
		}
	}
	return in
}

// TestMovesTrace: a step tells what it moved, and waits for a slow place; the wait is in its trace.
func TestMovesTrace(t *testing.T) {
	p := deepStep(t)
	far := &elsewhere{delay: func() { time.Sleep(5 * time.Millisecond) }}
	d := opened(t, p, far)
	trace, err := d.Run(schedule.Run{Inputs: tokens(p)})
	if err != nil {
		t.Fatal(err)
	}
	if m := trace.Moved; m.Bytes != p.Moved.Bytes || m.Far != p.Moved.Peak || m.Waited < 5*time.Millisecond || m.Waited > trace.Took {
		t.Errorf("%+v, the plan says %+v", m, p.Moved)
	}
	if trace.Arena != p.Arena {
		t.Errorf("the arena was used up to %d, the plan says %d", trace.Arena, p.Arena)
	}
	if err := d.Close(); err != nil || !far.closed {
		t.Errorf("%v, closed %v", err, far.closed)
	}
}

// TestMovesFail: a copy that fails ends the step with an error that names the value, and no copy is under way behind it. The
// next step does what it would have done.
func TestMovesFail(t *testing.T) {
	for _, writes := range []bool{true, false} {
		p := deepStep(t)
		n, failing := 0, true
		far := &elsewhere{}
		far.fail = func(write bool) error {
			if write == writes {
				if n++; failing && n == 2 {
					return syscall.ENOSPC
				}
			}
			return nil
		}
		d := opened(t, p, far)
		_, err := d.Run(schedule.Run{Inputs: tokens(p)})
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), map[bool]string{true: "out of the arena", false: "back into the arena"}[writes]) {
			t.Fatalf("writes %v: %v", writes, err)
		}
		failing = false
		if _, err := d.Run(schedule.Run{Inputs: tokens(p)}); err != nil {
			t.Fatal(err)
		}
		got, err := d.Output(p.Graph.Loss.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		fresh := opened(t, p, &elsewhere{})
		if _, err := fresh.Run(schedule.Run{Inputs: tokens(p)}); err != nil {
			t.Fatal(err)
		}
		want, err := fresh.Output(p.Graph.Loss.Name)
		if err != nil || !(got.Float(0) == want.Float(0)) {
			t.Errorf("the loss is %v behind a failed step, not %v: %v", got.Float(0), want.Float(0), err)
		}
		fresh.Close()
	}
}

// TestMovesNowhere: a device that was given no place refuses a schedule that moves values.
func TestMovesNowhere(t *testing.T) {
	s, err := deepStep(t).Schedule()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cpu.Open(s, cpu.Options{}); err == nil || !strings.Contains(err.Error(), "without a place") {
		t.Fatal(err)
	}
}
