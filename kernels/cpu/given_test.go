package cpu_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/cpu"
	"memopt/planner"
)

// TestGivenMemory: a forward program computes the same bits in memory of the device's own and in memory
// that each run is given, as one arena or live range by live range, wherever its outputs lie. Memory
// is poisoned before each run and, live range by live range, when it is allocated and freed.
func TestGivenMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, values := randomForward(t)
		for range rapid.IntRange(0, 3).Draw(t, "outputs") {
			g.Outputs = append(g.Outputs, rapid.SampledFrom(append(values, g.Inputs[0])).Draw(t, "output"))
		}
		dims := map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
		want := run(t, plan(t, g, planner.Request{Dims: dims}), cpu.Options{Workers: 1})
		p := plan(t, g, planner.Request{Dims: dims, OutputsGiven: rapid.Bool().Draw(t, "given")})
		same(t, "with outputs outside the arena", run(t, p, cpu.Options{Workers: 1, Poison: true}), want)
		s, err := p.Schedule()
		if err != nil {
			t.Fatal(err)
		}
		d, err := cpu.Open(s, cpu.Options{Given: true, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		poisoned := func(n int64) []byte { return aligned(&graph.Tensor{Bytes: bytes.Repeat([]byte{0xff}, int(n))}).Bytes }
		live, most, refuse := int64(0), int64(0), -1
		take := func(n int64, of string) ([]byte, func(), error) {
			if refuse == 0 {
				return nil, nil, errors.New("refused " + of)
			}
			refuse--
			live += n
			most = max(most, live)
			b := poisoned(n)
			return b, func() {
				live -= n
				copy(b, bytes.Repeat([]byte{0xff}, int(n)))
			}, nil
		}
		for step, way := range []string{"arena", "range", "fail", "range", "arena"} {
			m := schedule.Memory{Outputs: map[int64][]byte{}}
			for _, r := range s.Outputs {
				if r.Space == schedule.Given {
					m.Outputs[r.Offset] = poisoned(r.Bytes)
				}
			}
			live, most, refuse = 0, 0, -1
			switch way {
			case "arena":
				m.Arena = poisoned(s.Arena)
			case "fail":
				refuse = rapid.IntRange(0, 2).Draw(t, "allocations")
				fallthrough
			default:
				m.Take = take
			}
			_, err := d.Run(schedule.Run{Inputs: inputs(p), Step: uint64(min(step, 1)), Memory: &m})
			if way == "fail" {
				if refuse == 0 && err == nil && len(s.Lives) > 2 {
					t.Fatal("a refused allocation is no error")
				}
				d.Release()
				if live != 0 {
					t.Fatalf("%d bytes are left after an error", live)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if step > 0 { // the second step of run has other random numbers
				got := map[string][]byte{}
				for _, v := range g.Outputs {
					x, err := d.Output(v.Name)
					if err != nil {
						t.Fatal(err)
					}
					got[v.Name] = x.Bytes
				}
				same(t, way, got, want)
				for _, r := range s.Outputs {
					if r.Space == schedule.Given && !bytes.Equal(m.Outputs[r.Offset], want[r.Value.Name]) {
						t.Fatalf("%s: output %q differs\n%s", way, r.Value.Name, g)
					}
				}
			}
			d.Release()
			if live != 0 {
				t.Fatalf("%d bytes are left", live)
			}
			if m.Take != nil && most != p.Result.Peak {
				t.Fatalf("%d bytes were allocated at once, but the plan's peak is %d\n%s", most, p.Result.Peak, g)
			}
		}
	})
}

func same(t *rapid.T, when string, got, want map[string][]byte) {
	for name, b := range want {
		if !bytes.Equal(got[name], b) {
			t.Fatalf("%s: output %q differs", when, name)
		}
	}
}
