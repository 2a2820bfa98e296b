package outside_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner/outside"
	"memopt/planner/profile"
)

// TestLayout: whatever is placed, no two places of a space share bytes, each begins at a multiple of the alignment and ends within
// its space, and the ring stands behind all that stays in memory.
func TestLayout(t *testing.T) {
	g := graph.New(kernels.Library, "values")
	b := graph.NewBuilder(g)
	values := map[graph.Kind]*graph.Value{}
	for _, kind := range []graph.Kind{graph.Input, graph.Param, graph.State} {
		v, err := b.Define(kind, fmt.Sprint("v", kind), graph.Float32, graph.Dims(4))
		if err != nil {
			t.Fatal(err)
		}
		values[kind] = v
	}
	rapid.Check(t, func(t *rapid.T) {
		var l outside.Layout
		taken := map[schedule.Space][]schedule.Ref{}
		states := int64(0)
		for range rapid.IntRange(0, 20).Draw(t, "values") {
			v := values[rapid.SampledFrom([]graph.Kind{graph.Input, graph.Param, graph.State}).Draw(t, "kind")]
			bytes, streams := rapid.Int64Range(0, 1<<22).Draw(t, "bytes"), v.Kind == graph.State && rapid.Bool().Draw(t, "streams")
			space, at := l.Place(v, bytes, streams)
			if streams && bytes > 0 != (space == schedule.Elsewhere) || !streams && space == schedule.Elsewhere || (v.Kind == graph.Input) != (space == schedule.Staging) {
				t.Fatalf("%v of %d bytes, which streams: %v, is in %v", v.Kind, bytes, streams, space)
			}
			if v.Kind == graph.State && space == schedule.State {
				states += bytes
			}
			taken[space] = append(taken[space], schedule.Ref{Space: space, Offset: at, Bytes: bytes})
		}
		before := l
		ring := l.End()
		if ring > 0 != (l.Elsewhere > 0) || ring%(schedule.RingParts*schedule.Aligned) != 0 || l.States != states+ring || l.Fixed() != l.State+l.Staging {
			t.Fatalf("a ring of %d bytes for %+v", ring, l)
		}
		if ring > 0 {
			taken[schedule.State] = append(taken[schedule.State], schedule.Ref{Space: schedule.State, Offset: l.State - ring, Bytes: ring})
		} else if before != l {
			t.Fatalf("%+v became %+v", before, l)
		}
		for space, all := range taken {
			height := map[schedule.Space]int64{schedule.State: l.State, schedule.Staging: l.Staging, schedule.Elsewhere: l.Elsewhere}[space]
			for i := range all {
				if all[i].Offset%schedule.Aligned != 0 || all[i].Offset < 0 || all[i].Offset+all[i].Bytes > height {
					t.Fatalf("%+v in a space of %d bytes", all[i], height)
				}
				for j := range i {
					if all[i].Overlaps(&all[j]) {
						t.Fatalf("%+v and %+v share bytes", all[i], all[j])
					}
				}
			}
		}
	})
}

// TestStates: the states of the largest parameters leave first, those of the stated number stay, and what stays and what
// streams is all that can.
func TestStates(t *testing.T) {
	g, err := zoo.Step(zoo.Spec{Family: "mlp", Layers: 3, Width: 64}, kernels.Library, autograd.Options{Optimizer: "adamw"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := graph.Bind(map[string]int64{"batch": 2})
	if err != nil {
		t.Fatal(err)
	}
	bytes := make([]int64, len(g.Values))
	for i, v := range g.Values {
		if bytes[i], err = b.Eval(v.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	s := outside.StatesOf(g, b)
	can := g.Streamed()
	for stay := range s.Parameters() + 2 {
		is := s.Streams(stay)
		streams, stays := int64(0), int64(0)
		least, most := int64(1)<<62, int64(0) // of a state that streams, and of one that stays
		for i, v := range g.Values {
			switch {
			case is[i] && !can[i]:
				t.Fatalf("%q cannot stream", v.Name)
			case is[i]:
				streams, least = streams+bytes[i], min(least, bytes[i])
			case can[i]:
				stays, most = stays+bytes[i], max(most, bytes[i])
			}
		}
		if most > least {
			t.Errorf("with %d to stay, a state of %d bytes stays and one of %d leaves", stay, most, least)
		}
		l := outside.Of(g, bytes, is)
		x := s.Sum("disk", stay, &l, nil)
		if x.StayBytes != stays || x.Stay != min(stay, s.Parameters()) || x.Parameters+x.Stay != s.Parameters() || x.Bytes < streams || x.CopyNS != 0 {
			t.Errorf("with %d to stay: %+v, of %d bytes that stream and %d that stay", stay, x, streams, stays)
		}
	}
	if all := outside.Streaming(g, b, "", 0); slices.Contains(all, true) {
		t.Error("a state streams from nowhere")
	}
}

// TestRefused: what a request cannot have is told with what there is.
func TestRefused(t *testing.T) {
	golden.Cases(t, "testdata/refused.txt", func(input string) string {
		var said strings.Builder
		for line := range strings.Lines(input) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Fields(line)
			var err error
			switch f[0] {
			case "states":
				var g *graph.Graph
				if g, err = zoo.Step(zoo.Spec{Family: "mlp", Layers: 2}, kernels.Library, autograd.Options{Optimizer: f[1]}); err != nil {
					t.Fatal(err)
				}
				err = outside.CheckStates(g, strings.Trim(f[2], `"`))
			case "values":
				var prices *profile.Profile
				if f[3] == "priced" {
					if prices, err = profile.For("xeon-core"); err != nil {
						t.Fatal(err)
					}
				}
				e := outside.Elsewhere{Place: f[1]}
				if _, err = fmt.Sscan(f[2], &e.Bytes); err != nil {
					t.Fatal(err)
				}
				err = e.Check(prices)
			}
			fmt.Fprintf(&said, "%s: %v\n", strings.TrimSpace(line), err)
		}
		return said.String()
	})
}
