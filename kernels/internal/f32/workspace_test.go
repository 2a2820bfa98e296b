package f32

import "testing"

// TestWorkspace: what is lent is counted once, and serves again.
func TestWorkspace(t *testing.T) {
	var w workspace[[10]float32]
	a, b := w.Get(), w.Get()
	if a == b {
		t.Error("one block is lent twice")
	}
	w.Put(a)
	if c := w.Get(); c != a {
		t.Error("what came back is not lent again")
	}
	if n := w.Bytes(); n != 80 {
		t.Errorf("two blocks of 40 bytes are counted as %d", n)
	}
	one := []float32{1}
	Multiply(Serial, 1, 1, 1, Dense(one, 1, 1, 1), Dense(one, 1, 1, 1), one, 1, false)
	if n := WorkspaceBytes(); n < BlockK*(BlockM+maxCols)*4 {
		t.Errorf("a product's panels are not counted: %d", n)
	}
}
