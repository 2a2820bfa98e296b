package training

import (
	"fmt"
	"io"
	"path/filepath"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/step"
)

// deviceState is a state whose bytes are fetched from the device on demand.
type deviceState struct {
	d    devices.Device
	name string
	size int64
}

func (s deviceState) Len() int64 { return s.size }

func (s deviceState) Bytes() ([]byte, error) {
	x, err := s.d.State(s.name)
	if err != nil {
		return nil, err
	}
	return x.Bytes, nil
}

// WriteTo writes the state directly from the device, in pieces if it must be copied.
func (s deviceState) WriteTo(w io.Writer) (int64, error) {
	if err := s.d.WriteState(w, s.name); err != nil {
		return 0, err
	}
	return s.size, nil
}

// changing lists the initializers of the model's file that the step updates.
func changing(m *step.Model) (states []*graph.Value) {
	for _, u := range m.Graph.Updates {
		if u.State.Data != nil {
			states = append(states, u.State)
		}
	}
	return states
}

// canWriteTrained says why the trained model cannot be written.
func canWriteTrained(m *step.Model, path string) error {
	switch {
	case m.Source == nil:
		return exit.Input(fmt.Errorf("%s is no ONNX model with weights, so none can be written with trained ones", filepath.Base(m.Path)))
	case len(changing(m)) == 0:
		return exit.Input(fmt.Errorf("the step of %s updates none of its initializers, so there are no trained weights to write", filepath.Base(m.Path)))
	}
	for _, file := range onnx.Written(path) {
		if m.Reads(file) {
			return exit.Input(fmt.Errorf("%s is read, and would be overwritten; choose another name", file))
		}
	}
	return nil
}

// writeTrained writes the model's file with the trained parameters and running statistics from the device.
func writeTrained(m *step.Model, d devices.Device, path string) (err error) {
	numbers := map[string]graph.Data{}
	for _, v := range changing(m) {
		numbers[v.Name] = deviceState{d, v.Name, v.Data.Len()}
	}
	if m.Unchanged(&err); err != nil {
		return err
	}
	if err := onnx.WriteTrained(path, m.Path, numbers); err != nil {
		return exit.Input(err)
	}
	return nil
}
