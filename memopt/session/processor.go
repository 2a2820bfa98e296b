package session

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/weights"
	"memopt/kernels/cpu"
	"memopt/planner"
)

// processor runs programs in memory of the session: results are computed in their final place where possible, values lie in
// the arena, weights and aligned inputs where they are.
type processor struct{ *Session }

func (s processor) buffers() Buffers { return hostBuffers{memory(s)} }
func (s processor) direct() bool     { return true }

func (s processor) holds(string) bool                { return true }
func (s processor) reported(owner string) string     { return owner }
func (s processor) keeps(*weights.Block) bool        { return true }
func (s processor) lent(*graph.Value, *graph.Tensor) {}

func (s processor) plan(ctx context.Context, p *program, dims map[string]int64, fetches []Fetch) (*pattern, error) {
	plan, err := planner.Make(p.making(fetches), planner.Request{Dims: dims, Strategy: "keep-all", Lowered: s.options.Lowered, OutputsGiven: true, Context: ctx})
	if err != nil {
		return nil, err
	}
	t := &pattern{p: p, bound: plan.Result.Peak}
	if t.schedule, err = plan.Schedule(); err != nil {
		return nil, err
	}
	t.sized(fetches)
	if t.read = inputsRead(t.schedule); !s.options.Pattern {
		t.height = 0 // values are allocated one by one
	}
	if s.pool == nil && !s.options.dry {
		s.pool = cpu.NewPoolOf(cmp.Or(s.options.Threads, runtime.GOMAXPROCS(0)))
	}
	t.host, err = cpu.Open(t.schedule, cpu.Options{Given: true, Lent: p.fixed, Pool: s.pool, Workers: 1})
	return t, err
}

func (s processor) planned() *recent[*pattern] { return s.patterns }

// mostPatterns is smaller for large graphs.
func (s processor) mostPatterns() int {
	const values = 1 << 18
	if s.first == nil {
		return 16
	}
	return min(max(values/max(len(s.first.g.Values), 1), 4), 128)
}

func (s processor) open(t *pattern, known bool, _ []Fetch, _ map[string]Place) (*pattern, bool, error) {
	if known {
		s.Session.stats.hits++
	} else {
		s.Session.stats.misses++
	}
	return t, known, nil
}

func (s processor) place(x *execution, k int) (Place, error) {
	f := x.fetches[k]
	p, err := f.place(s.Session, x.t.tensor(k))
	if err == nil && p.Buffer.Bytes() == nil {
		err = fmt.Errorf("output %q is bound to memory of a device, which the processor, where the session runs, cannot address", f.Name)
	}
	return p, err
}

// run runs the pattern, and copies results that could not be computed in their final place.
func (s processor) run(x *execution) error {
	s.begin(BindStage, func() (int64, int64) {
		stay, pass := s.takes(x)
		return stay + pass, 0
	})
	for _, step := range []func() error{x.feed, x.fetch, x.block} {
		if err := step(); err != nil {
			return err
		}
	}
	s.begin(RunStage, func() (int64, int64) {
		_, pass := s.takes(x)
		return 0, pass
	})
	x.memory.Dry = s.options.dry
	defer x.t.host.Release()
	if err := x.t.host.Give(x.memory); err != nil {
		return err
	}
	if _, err := x.t.host.Run(schedule.Run{Seed: s.options.Seed, Step: s.runs, Context: x.ctx}); err != nil || s.options.dry {
		return err
	}
	for _, k := range x.later {
		n := int64(len(x.places[k]))
		if err := x.t.host.WriteOutput(&into{x.places[k]}, x.t.results[k].Value.Name); err != nil {
			return err
		}
		x.r.CopiedOut += n
	}
	return nil
}

func (s processor) takes(x *execution) (stay, pass int64) {
	t := x.t
	stay = s.grows(t, x.fetches)
	for k, f := range x.fetches {
		if !f.buffered() && f.Place == nil {
			stay += t.bytes(k)
		}
	}
	for _, v := range t.p.g.Inputs {
		if in := x.in[v.Name]; t.read[v.Name] && !isAligned(in.Bytes, v.Type) {
			pass += bytesOf(in)
		}
	}
	if pass += t.height; !s.options.Pattern {
		pass += t.bound
	}
	return stay, pass
}

func (s processor) memory(x *execution, promised, measured *Memory) {
	promised.Weights, measured.Weights = s.copiedBytes+s.mappedBytes+x.t.p.owned, s.account.Owners()[ownWeights]
	promised.Inputs, measured.Inputs = x.r.CopiedIn, x.r.CopiedIn
	if promised.Values = x.t.height + x.beside; !s.options.Pattern {
		promised.Values += x.t.bound
	}
	measured.Values = s.arena.Highest() - x.lentBefore - measured.Results - measured.Inputs
}

func (s processor) evict(int) bool                  { return false }
func (s processor) shrink() int64                   { return s.arena.Shrink() }
func (s processor) stats(a arena.Stats) arena.Stats { return a }
