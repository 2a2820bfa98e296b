package memopt

import (
	"context"
	"os"
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/memopt/session"
)

// TestWeightsOnce: sessions of one model, of a copy of its file, and of another model with weights that are equal have
// those once, on the processor and on a device, until the last is closed; results are those of each by itself.
func TestWeightsOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, device string) {
		const width = 64
		const matrix = width * width * 4
		small, large, others := squares(t, width, 2, 7), squares(t, width, 3, 7), squares(t, width, 2, 8) // the first two layers of large are small's
		file, err := os.ReadFile(small)
		if err != nil {
			t.Fatal(err)
		}
		twin := small + ".twin"
		if err := os.WriteFile(twin, file, 0o644); err != nil {
			t.Fatal(err)
		}
		before := session.HeldWeights()
		x := map[string]*graph.Tensor{"x": fillWith(graph.NewTensor(graph.Float32, 3, width), 4)}
		run := func(s *session.Session) []byte {
			t.Helper()
			r, err := s.Run(context.Background(), x, nil, session.RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(r.Outputs[0].Bytes)
		}
		want := map[string][]byte{}
		for _, path := range []string{small, large, others} {
			s := openOn(t, device, path)
			want[path] = run(s)
			s.Close()
		}
		want[twin] = want[small]
		var open []*session.Session
		for i, step := range []struct {
			path   string
			shared int64 // of this one's weights, once it has run
		}{{small, 0}, {small, 2 * matrix}, {twin, 2 * matrix}, {large, 2 * matrix}, {others, 0}} {
			s := openOn(t, device, step.path)
			if got := run(s); !slices.Equal(got, want[step.path]) {
				t.Errorf("session %d gives something else than by itself", i)
			}
			open = append(open, s)
			if got := s.Stats().Weights.Shared; got < step.shared || got > step.shared+2*width*4 { // the sums' ones, too
				t.Errorf("session %d shares %d bytes, not %d", i, got, step.shared)
			}
		}
		if got := open[0].Stats().Weights.Shared; got < 2*matrix {
			t.Errorf("the first shares %d bytes now", got)
		}
		open[0].Close() // whose memory the others use
		open[1].Close()
		for i, path := range []string{twin, large, others} {
			if got := run(open[2+i]); !slices.Equal(got, want[path]) {
				t.Errorf("%s gives something else after those that it shared with are closed", path)
			}
		}
		open[2].Close()
		if got := open[3].Stats().Weights.Shared; got > 2*width*4 {
			t.Errorf("the last that has them shares %d bytes", got)
		}
		open[3].Close()
		open[4].Close()
		if after := session.HeldWeights(); after != before {
			t.Errorf("%+v are held at the end, %+v were", after, before)
		}
	})
}
