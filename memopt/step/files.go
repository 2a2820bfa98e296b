package step

import (
	"errors"

	"memopt/internal/weights"
	"memopt/internal/whole"
	"memopt/memopt/exit"
)

// Close releases the model's weights: neither the model nor its plans can be run or written as ONNX afterwards.
func (m *Model) Close() { m.Source.Close() }

// files are the model's file and the files of its external weights.
func (m *Model) files() []string {
	if m.Source == nil {
		return []string{m.Path}
	}
	return m.Source.Files()
}

// Unchanged sets the call's error if one of the model's files has changed since it was opened, whatever the call's
// outcome: what it read is a mix of old and new. For a held model, it is enough that the mapped bytes were not
// written to.
func (m *Model) Unchanged(err *error) {
	look := m.Source.Unchanged
	if m.Held {
		look = m.Source.Intact
	}
	if changed := look(); changed != nil {
		*err = changed
	}
	var changed *weights.ChangedError
	if errors.As(*err, &changed) {
		*err = exit.Input(changed)
	}
}

// Guarded calls a function that reads the model's weights, such as one that prints its graph. If one of its files
// has changed, that is the error.
func (m *Model) Guarded(do func() error) (err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	return do()
}

// Reads reports whether a file is one of the model's files, so that writing to it would destroy the model.
func (m *Model) Reads(path string) bool { return whole.Among(path, m.files()) }
