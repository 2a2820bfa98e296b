package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFresh: what is committed is what this program writes.
func TestFresh(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", "f32", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale; go generate ./kernels/internal/f32 writes it again", name)
		}
	}
}
