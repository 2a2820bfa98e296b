package planner

import (
	"math"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/planner/moving"
	"memopt/planner/profile"
)

// TestUnderOffload: what waits for each copy takes the time of all; copies beside operators take no longer, and the same values
// leave; no plan of ours with the same moves costs more, and by the check of moves the peak is the same.
func TestUnderOffload(t *testing.T) {
	m, _ := regionsOf(t, "llama.json.gz")
	r := Request{Profile: h100(t)}
	kept, err := UnderRegions(m.g, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits, err := UnderOffload(m.g, r, Offload{Waits: true})
	if err != nil {
		t.Fatal(err)
	}
	beside, err := UnderOffload(m.g, r, Offload{})
	if err != nil {
		t.Fatal(err)
	}
	if waits.Moved == 0 || waits.Moved != beside.Moved || waits.Peak >= kept.Peak || waits.Peak > beside.Peak || waits.Again != 0 {
		t.Errorf("kept %+v, with waits %+v, beside operators %+v", kept.Point, waits.Point, beside.Point)
	}
	if waits.WaitNS != waits.CopyNS || beside.CopyNS != waits.CopyNS || beside.WaitNS >= waits.WaitNS {
		t.Errorf("copies of %d and %d ns, waits of %d and %d", waits.CopyNS, beside.CopyNS, waits.WaitNS, beside.WaitNS)
	}
	few, err := UnderOffload(m.g, r, Offload{Least: 64 << 20, Beside: 1 << 20, Waits: true})
	if err != nil {
		t.Fatal(err)
	}
	if few.Moved <= 0 || few.Moved >= waits.Moved || few.Idle < 1<<20 || few.Peak < waits.Peak {
		t.Errorf("large values only: %+v", few)
	}
	none, err := UnderOffload(m.g, r, Offload{Values: []string{}})
	if err != nil || none.Moved != 0 || none.Peak != kept.Peak || none.Overhead != kept.Overhead {
		t.Errorf("nothing moved: %+v, %v", none, err)
	}
	for _, wrong := range []struct {
		r Request
		o Offload
	}{{r, Offload{Values: []string{"nothing"}}}, {r, Offload{Place: "moon"}}, {Request{}, Offload{}}} {
		if _, err := UnderOffload(m.g, wrong.r, wrong.o); err == nil {
			t.Errorf("%+v is taken", wrong.o)
		}
	}
}

func h100(t *testing.T) *profile.Profile {
	t.Helper()
	p, err := profile.For("h100")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOffloadedValues: a value that is named leaves, and it alone, or is counted as one that stays.
func TestOffloadedValues(t *testing.T) {
	m, _ := regionsOf(t, "llama.json.gz")
	line := m.simulate(m.order(nil))
	border := int32(slices.IndexFunc(line.steps, func(s Step) bool { return m.g.Nodes[s.Node].Phase != graph.Forward }))
	tried := 0
	for _, n := range m.g.Nodes {
		if n.Phase != graph.Forward || n.Op.View || tried == 8 {
			continue
		}
		for _, v := range n.Outputs {
			o := Offload{Values: []string{v.Name}}
			spans, err := m.offloaded(line, o, border)
			if err != nil {
				t.Fatal(err)
			}
			if len(spans) == 0 {
				continue
			}
			tried++
			found, err := UnderOffload(m.g, Request{Profile: h100(t)}, o)
			if err != nil || found.Moved+found.Idle != m.bytes[v.ID] {
				t.Errorf("%s of %d bytes: %+v, %v", v.Name, m.bytes[v.ID], found, err)
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d values are read by the backward pass", tried)
	}
}

// TestMovesAreValid: moves of any spans at once are valid ones, and wait as the check of moves finds.
func TestMovesAreValid(t *testing.T) {
	plain, _ := regionsOf(t, "gpt2-6L.json.gz")
	m, err := newModel(plain.g, Request{Profile: h100(t)})
	if err != nil {
		t.Fatal(err)
	}
	l := m.line(m.simulate(m.order(nil)), moving.Far{Bytes: math.MaxInt64 / 4, Out: moving.Engine{Delay: 10, Rate: 1}, In: moving.Engine{Delay: 10, Rate: 1}})
	var all []moving.Crossing
	for k, s := range l.Spans {
		for _, d := range s.Idle {
			if s.Bytes > 0 {
				all = append(all, moving.Crossing{Span: int32(k), Idle: d, At: (d.From + d.To - 1) / 2})
			}
		}
	}
	for _, waits := range []bool{true, false} {
		moves := l.Moves(all, waits)
		_, _, wait, err := moving.Check(l, moves)
		if err != nil || len(moves) != len(all) || wait != l.Wait(moves) {
			t.Errorf("%d moves of %d, which wait %d or %d: %v", len(moves), len(all), wait, l.Wait(moves), err)
		}
	}
}
