package session

import (
	"context"
	"fmt"
	"os"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
)

// save writes the optimized graph, with operators that other runtimes have, too.
func (s *Session) save(ctx context.Context, to string) error {
	g, source, err := s.from(byNames, nil).Read(ctx, kernels.AsRead())
	if err != nil {
		return err
	}
	defer source.Close()
	for _, file := range onnx.Written(to) {
		for _, read := range source.Files() {
			if a, err := os.Stat(file); err == nil {
				if b, err := os.Stat(read); err == nil && os.SameFile(a, b) {
					return fmt.Errorf("%s is read, and would be overwritten; choose another name", file)
				}
			}
		}
	}
	o := graph.CleanOptions{Context: ctx}
	switch s.options.Optimize {
	case "off":
		g.Prune()
	case "fuse":
		o.Fuse = kernels.Portable
		fallthrough
	default:
		g.Clean(o)
	}
	options := []onnx.Option{onnx.Until(ctx)}
	if s.options.SaveBeside != "" {
		options = append(options, onnx.Beside(s.options.SaveBeside, s.options.SaveFrom))
	}
	return onnx.Write(to, g, options...)
}
