package memopt

import (
	"os"
	"slices"
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

// Reads is whether a file is one of those, which to write would destroy the model.
func (m *Model) Reads(path string) bool {
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(m.files(), func(file string) bool {
		read, err := os.Stat(file)
		return err == nil && os.SameFile(info, read)
	})
}
