package onnx

import (
	"slices"

	"memopt/memopt/weights"
)

// Source is the files that a graph was read from. Its weights are in them, mapped
// until the source is closed. After that, reading a Block panics, and slices taken
// before are invalid.
type Source struct {
	// Nodes is the number of nodes in the model's file.
	Nodes int
	// Origins describes float initializers, by the name of the value.
	Origins map[string]Origin
	// Absent lists parameters of the exporter's list that are not in the file, even as part of folded values.
	Absent []string
	// Taken lists the initializers that were replaced by From.Given.
	Taken []string
	files []*weights.File
	uses  []*weights.Block // one per use by the graph's values
}

// Files lists the paths of the model and of its external data.
func (s *Source) Files() []string {
	var paths []string
	for _, f := range s.files {
		paths = append(paths, f.Name())
	}
	return paths
}

// Unchanged returns an error if one of the files has changed since it was opened. Results that
// depend on weights are valid only if this returns nil after the weights were read. A nil source
// never changes.
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

// holds reports whether the source has a file of that path.
func (s *Source) holds(path string) bool {
	return slices.ContainsFunc(s.files, func(f *weights.File) bool { return f.Name() == path })
}

// Close unmaps the files. It may be called twice, and on the nil source of a graph without
// weights.
func (s *Source) Close() {
	if s == nil {
		return
	}
	for _, b := range s.uses {
		b.Drop()
	}
	s.uses = nil
}

// Intact returns an error if one of the files was modified in place since it was opened, which changes the mapping.
// Replacing or removing a file does not.
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
