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
	// Origins is what is known of float initializers beyond their kind, by the name of the value.
	Origins map[string]Origin
	// Absent are parameters that the exporter lists and the file does not have, nor anything made of them.
	Absent []string
	// Taken are the initializers that were given instead of the file's.
	Taken []string
	files []*weights.File
	uses  []*weights.Block // one for each use that the graph's values have of them
}

// Files are the paths of the model and of its external data.
func (s *Source) Files() []string {
	var paths []string
	for _, f := range s.files {
		paths = append(paths, f.Name())
	}
	return paths
}

// Unchanged is an error if one of the files is another than it was when it was
// opened. What is made of a graph's numbers is good only if this is nil after they
// were read. The nil source never changes.
func (s *Source) Unchanged() error {
	if s == nil {
		return nil
	}
	for _, f := range s.files {
		if err := f.Unchanged(); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether a file of that path is one of the source's.
func (s *Source) holds(path string) bool {
	return slices.ContainsFunc(s.files, func(f *weights.File) bool { return f.Name() == path })
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

// Intact is an error if one of the files was written to in its place since it was opened: what is mapped of it is not
// what it was. A file that another took the place of, or that is gone, is still mapped as it was.
func (s *Source) Intact() error {
	if s == nil {
		return nil
	}
	for _, f := range s.files {
		if err := f.Intact(); err != nil {
			return err
		}
	}
	return nil
}
