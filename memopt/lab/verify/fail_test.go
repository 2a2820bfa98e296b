package verify

import (
	"io/fs"
	"math"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"memopt/internal/graph"
)

// TestWrongOutput: the runner can fail. A case of the zip passes; with one number
// changed it does not, and neither with a type, a shape or a file missing.
func TestWrongOutput(t *testing.T) {
	cases, closer, err := OpenZip(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	const dir = "node/test_add"
	copied := func(change func(fstest.MapFS)) fs.FS {
		m := fstest.MapFS{}
		for _, name := range []string{modelFile, "test_data_set_0/input_0.pb", "test_data_set_0/input_1.pb", "test_data_set_0/output_0.pb"} {
			data, err := fs.ReadFile(cases, path.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			m[path.Join(dir, name)] = &fstest.MapFile{Data: data}
		}
		change(m)
		return m
	}
	output := path.Join(dir, "test_data_set_0/output_0.pb")
	for _, test := range []struct {
		name   string
		change func(m fstest.MapFS)
		want   Outcome
		reason string
	}{
		{"as it is", func(fstest.MapFS) {}, Passed, ""},
		{"another number", func(m fstest.MapFS) { m[output].Data[len(m[output].Data)-2] ^= 0x40 }, Failed, `interpreted: output "sum", element 59 is`},
		{"an input's numbers", func(m fstest.MapFS) {
			m[output].Data = m[path.Join(dir, "test_data_set_0/input_0.pb")].Data
		}, Failed, `interpreted: output "sum", element 0 is`},
	} {
		r, err := Run(copied(test.change))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := r.Results[0]; got.Outcome != test.want || !strings.HasPrefix(got.Reason, test.reason) {
			t.Errorf("%s: %s, %q", test.name, got.Outcome, got.Reason)
		}
		if r.Count(test.want) != 1 || !strings.Contains(r.Table(), "Add") {
			t.Errorf("%s: the report is\n%s", test.name, r.Table())
		}
	}
	if _, err := Run(copied(func(m fstest.MapFS) { delete(m, output) })); err == nil || !strings.Contains(err.Error(), "output_0.pb") {
		t.Errorf("without a file: %v", err)
	}
	if _, err := Run(fstest.MapFS{}); err == nil {
		t.Error("no cases are no error")
	}
}

func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		t         graph.DType
		got, want float64
		loose, ok bool
	}{
		{graph.Float32, 1.0009, 1, false, true},
		{graph.Float32, 1.0012, 1, false, false},
		{graph.Float32, 9e-8, 0, false, true},
		{graph.Float32, nan, nan, false, true},
		{graph.Float32, nan, 1, false, false},
		{graph.Float32, 1, nan, false, false},
		{graph.Float32, inf, inf, false, true},
		{graph.Float32, -inf, inf, false, false},
		{graph.Float32, 1, inf, false, false},
		{graph.BFloat16, 1, 1, false, true},
		{graph.BFloat16, 1 + 2.0/128, 1, true, true},
		{graph.BFloat16, 1 + 3.0/128, 1, false, false},
		{graph.Float16, 1 + 2.0/1024, 1, true, true},
		{graph.Float16, 1 + 3.0/1024, 1, false, false},
		{graph.Float16, inf, 1, false, false},
		{graph.Int64, 1000, 1000, false, true},
		{graph.Int64, 1001, 1000, false, false},
	} {
		tensor := func(x float64) []*graph.Tensor {
			y := graph.NewTensor(test.t, 1)
			y.SetFloat(0, x)
			return []*graph.Tensor{y}
		}
		loose, err := compare(tensor(test.got), tensor(test.want), []*graph.Value{{Name: "y"}})
		if loose != test.loose || (err == nil) != test.ok {
			t.Errorf("%s: %v for %v: loose %v, %v", test.t, test.got, test.want, loose, err)
		}
	}
	if _, err := compare([]*graph.Tensor{graph.NewTensor(graph.Float32, 1)}, []*graph.Tensor{graph.NewTensor(graph.Float32)}, []*graph.Value{{Name: "y"}}); err == nil {
		t.Error("another rank is no difference")
	}
	if _, err := compare([]*graph.Tensor{graph.NewTensor(graph.Int32)}, []*graph.Tensor{graph.NewTensor(graph.Float32)}, []*graph.Value{{Name: "y"}}); err == nil {
		t.Error("another type is no difference")
	}
}
