package planfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/planfile"
)

// FuzzFile: any bytes are a plan for the graph that passes Check, or an error.
func FuzzFile(f *testing.F) {
	g := step(f, zoo.Spec{Family: "mlp", Layers: 3, Width: 8, Inputs: 4})
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 8}, ActivationBudget: planner.Size{Percent: 95}})
	if err != nil {
		f.Fatal(err)
	}
	file := planfile.Of(p, "m.onnx")
	add := func(change func(f *planfile.File)) {
		data, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		var other planfile.File
		if err := json.Unmarshal(data, &other); err != nil {
			f.Fatal(err)
		}
		change(&other)
		if data, err = json.Marshal(&other); err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	add(func(*planfile.File) {})
	add(func(f *planfile.File) { f.Dims["batch"] = 1 << 60 })
	add(func(f *planfile.File) { f.Dims["batch"] = -1 })
	add(func(f *planfile.File) { f.Dims = nil })
	add(func(f *planfile.File) { f.Steps[2].Node = 1 << 30 })
	add(func(f *planfile.File) { f.Steps = append(f.Steps, f.Steps...) })
	add(func(f *planfile.File) { f.Steps = f.Steps[1:] })
	add(func(f *planfile.File) { f.Offsets[1] = 1<<63 - 1 })
	add(func(f *planfile.File) { f.Offsets[1] = -64 })
	add(func(f *planfile.File) { f.Offsets = nil })
	add(func(f *planfile.File) { f.Result.Arena = 1<<63 - 1 })
	add(func(f *planfile.File) { f.Result.Peak++ })
	add(func(f *planfile.File) { f.Request.Config = "Relu+:1:-1,Nope+:9:-9" })
	add(func(f *planfile.File) { f.Program = f.Program[1:] })
	f.Add([]byte("null"))
	path := filepath.Join(f.TempDir(), "plan.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := planfile.Read(path)
		if err != nil {
			return
		}
		if p, err := read.Bind(g); err == nil {
			if err := planner.Check(p); err != nil {
				t.Error(err)
			}
		}
	})
}
