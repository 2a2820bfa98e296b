package session_test

import (
	"context"
	"testing"

	"memopt/internal/graph"
	"memopt/memopt/session"
)

// BenchmarkRun measures the cost of a run apart from its operators.
func BenchmarkRun(b *testing.B) {
	s, err := session.Open(context.Background(), session.Model{Path: "testdata/overridable.onnx"}, session.Options{Pattern: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	in := map[string]*graph.Tensor{"x": graph.NewTensor(graph.Float32, 1, 3)}
	out := make([]byte, 12)
	fetch := []session.Fetch{{Name: "y", Place: func(*graph.Tensor, int64) ([]byte, error) { return out, nil }}}
	for b.Loop() {
		if _, err := s.Run(context.Background(), in, fetch, session.RunOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
