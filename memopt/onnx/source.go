package onnx

import (
	"slices"

	"memopt/memopt/weights"
)

// Source is the files that a graph was read from. Its weights lie in them, mapped
// until the source is closed; whoever asks a Block for its bytes after that is told
// so by a panic. Slices taken before have nothing behind them.
type Source struct {
	// Nodes is how many the model has in its file, of which reading may make more or fewer.
	Nodes int
	files []string
	uses  []*weights.Block // one for each use that the graph's values have of them
}

// Files are the paths of the model and of its external data.
func (s *Source) Files() []string {
	return slices.Clone(s.files)
}

// Close gives the mappings back. Closing twice does nothing, nor does closing the
// nil source of a graph that has no weights.
func (s *Source) Close() {
	if s == nil {
		return
	}
	for _, b := range s.uses {
		b.Drop()
	}
	s.uses = nil
}
