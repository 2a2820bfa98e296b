package onnx

import (
	"slices"

	"memopt/internal/weights"
)

// Source is the files that a graph was read from. Its weights are in them, mapped
// until the source is closed. After that, reading a Block panics, and slices taken
// before are invalid.
type Source struct {
	// Nodes is the number of nodes in the model's file.
	Nodes int
	// Origins describes float initializers, by the name of the value.
	Origins map[string]Origin
	// Lost lists parameters of the exporter's list whose place in the file, or whose form, cannot be told.
	Lost []string
	// Shared lists parameters that several modules read, in files that do not say whether they were one parameter.
	Shared []string
	// Fused lists convolutions and the batch norms behind them that the exporter made one: "conv1 and bn1".
	Fused []string
	// Rows lists tables of which the file has only the rows that were looked up while the exporter ran.
	Rows []string
	// Tied are further names of parameters in the model, and the names under which the graph has them.
	Tied map[string]string
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
