package session

import (
	"context"
	"fmt"
	"strconv"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/weights"
)

// Shapes plans a run of all outputs, and returns their types and shapes. A dim that depends on
// values of inputs is −1; a shape is nil if its rank is unknown.
func (s *Session) Shapes(ctx context.Context, inputs map[string][]int) (out []Output, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer weights.Guard(&err)()
	if s.closed {
		return nil, false, errClosed
	}
	in := map[string]*graph.Tensor{}
	for _, p := range s.Signature.Inputs {
		if shape, ok := inputs[p.Name]; ok {
			in[p.Name] = &graph.Tensor{Type: p.Of, Shape: shape}
		}
	}
	for name := range inputs {
		if in[name] == nil {
			return nil, false, fmt.Errorf("the model has no input %q; it has %s", name, names(portNames(s.Signature.Inputs)))
		}
	}
	if err := s.checkShapes(in); err != nil {
		return nil, false, err
	}
	var fetches []Fetch
	for _, p := range s.Signature.Outputs {
		fetches = append(fetches, Fetch{Name: p.Name})
	}
	t, err := stop.When(ctx, func() (*pattern, error) {
		t, k, err := s.planned(ctx, in, fetches, byShapes)
		known = k
		return t, err
	})
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	for i, p := range s.Signature.Outputs {
		if err == nil {
			out = append(out, Output{Name: p.Name, Tensor: t.tensor(i)})
			continue
		}
		x := &graph.Tensor{Type: p.Of}
		for _, d := range p.Shape {
			n, wrong := strconv.Atoi(d)
			if wrong != nil {
				n = -1
			}
			x.Shape = append(x.Shape, n)
		}
		out = append(out, Output{Name: p.Name, Tensor: x})
	}
	return out, known, nil
}
