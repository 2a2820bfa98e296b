package kernels

import "testing"

// TestWorkspace: what is lent is counted once, and serves again.
func TestWorkspace(t *testing.T) {
	var w workspace[[10]float32]
	a, b := w.get(), w.get()
	if a == b {
		t.Error("one block is lent twice")
	}
	w.put(a)
	if c := w.get(); c != a {
		t.Error("what came back is not lent again")
	}
	if n := w.bytes(); n != 80 {
		t.Errorf("two blocks of 40 bytes are counted as %d", n)
	}
	one := []float32{1}
	multiply(serial, 1, 1, 1, dense{one, 1, 1, 1}, dense{one, 1, 1, 1}, one, 1, false)
	if n := Workspace(); n < blockK*(blockM+maxCols)*4 {
		t.Errorf("a product's panels are not counted: %d", n)
	}
}
