package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/session"
)

// TestFiles: external data from the caller's memory gives the same results as from files.
func TestFiles(t *testing.T) {
	g, err := zoo.New(zoo.Spec{Family: "mlp", Seed: 1}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mlp.onnx")
	if err := onnx.Write(path, g, onnx.External); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path + ".data")
	if err != nil {
		t.Fatal(err)
	}
	in := feed(t, g, map[string]int64{"batch": 3}, 1)
	run := func(m session.Model) map[string]*graph.Tensor {
		t.Helper()
		s, err := session.Open(context.Background(), m, session.Options{Pattern: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.Run(context.Background(), in, nil, session.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*graph.Tensor{}
		for _, o := range r.Outputs {
			x := graph.NewTensor(o.Type, o.Shape...)
			copy(x.Bytes, o.Bytes)
			out[o.Name] = x
		}
		return out
	}
	want := run(session.Model{Path: path})
	got := run(session.Model{Path: filepath.Join(t.TempDir(), "elsewhere"), Bytes: src, Files: map[string][]byte{"mlp.onnx.data": data}})
	for name := range want {
		if !equal(got[name], want[name]) {
			t.Errorf("%s differs", name)
		}
	}
	for _, files := range []map[string][]byte{nil, {"other": data}, {"mlp.onnx.data": data[:len(data)/2]}, {"mlp.onnx.data": nil}} {
		_, err := session.Open(context.Background(), session.Model{Path: filepath.Join(t.TempDir(), "elsewhere"), Bytes: src, Files: files}, session.Options{})
		if err == nil || !strings.Contains(err.Error(), "mlp.onnx.data") {
			t.Errorf("opened with %d files: %v", len(files), err)
		}
		var kind interface{ Kind() string }
		if !errors.As(err, &kind) || kind.Kind() != onnx.KindExternal {
			t.Errorf("kind of %v", err)
		}
	}
}
