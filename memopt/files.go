package memopt

import (
	"errors"
	"os"
	"slices"

	"memopt/memopt/weights"
)

// Close gives up the model's weights: neither it nor a plan of it can be run or
// written as ONNX any more.
func (m *Model) Close() { m.source.Close() }

// files are what the model was read from: its file, and those that its weights lie
// in beside it.
func (m *Model) files() []string {
	if m.source == nil {
		return []string{m.Path}
	}
	return m.source.Files()
}

// unchanged makes it a call's error that one of the model's files is another than it
// was when it was opened, whatever else came of the call: what it read is partly old
// and partly new. Of a model that is held it is enough that nobody writes to what is mapped.
func (m *Model) unchanged(err *error) {
	look := m.source.Unchanged
	if m.held {
		look = m.source.Intact
	}
	if changed := look(); changed != nil {
		*err = changed
	}
	var changed *weights.ChangedError
	if errors.As(*err, &changed) {
		*err = input(changed)
	}
}

// Guarded does something that reads the model's numbers, as the text of its graph does.
// That one of its files has changed is the error.
func (m *Model) Guarded(do func() error) (err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	return do()
}

// Reads is whether a file is one of those, which to write would destroy the model.
func (m *Model) Reads(path string) bool {
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(m.files(), func(file string) bool {
		read, err := os.Stat(file)
		return err == nil && os.SameFile(info, read)
	})
}
