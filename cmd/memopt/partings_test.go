package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"memopt/internal/compare"
)

// TestPartingsText: what parts is listed with its operator, and how much of it; in
// JSON too.
func TestPartingsText(t *testing.T) {
	var out strings.Builder
	writePartings(&out, "cpu", 1e-4, nil)
	if want := "\nno value differs from that on cpu by more than 0.0001, relative\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	all := []compare.Parting{{Value: "r", Node: "n", Op: "Relu", Shape: []int{2, 64}, RelErr: 0.01869, Off: 1}, {Value: "loss", Op: "ReduceMean", RelErr: math.NaN(), Off: 1}}
	writePartings(&out, "cpu", 1e-4, all)
	const want = `
differs from cpu  operator    relative  elements off
r                 Relu        1.87e-02      1 of 128
loss              ReduceMean       NaN        1 of 1
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	out.Reset()
	for range 12 {
		all = append(all, all[0])
	}
	writePartings(&out, "cpu", 1e-4, all)
	if !strings.HasSuffix(out.String(), "\nand 4 more\n") {
		t.Errorf("got\n%s", out.String())
	}
	text, err := json.Marshal(partingsJSON("cpu", 1e-4, all[:2]))
	if want := `{"device":"cpu","tolerance":0.0001,"values":[{"value":"r","node":"n","op":"Relu","shape":[2,64],"rel_err":0.01869,"elements_off":1},{"value":"loss","node":"","op":"ReduceMean","shape":[],"rel_err":null,"elements_off":1}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
