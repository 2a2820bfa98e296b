package main

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/tidwall/gjson"
)

// TestMaxbatchPlan: the plan that maxbatch writes is the one that plan writes for that
// batch and budget, and each rung of the ladder costs no more than it may.
func TestMaxbatchPlan(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range [][]string{
		{"new", "gpt", "-o", "gpt.onnx", "--layers", "2", "--width", "16", "--heads", "2", "--vocab", "30"},
		{"new", "mlp", "-o", "mlp.onnx", "--width", "16", "--inputs", "8", "--classes", "4"},
	} {
		if _, stderr, code := said(line...); code != 0 {
			t.Fatal(stderr)
		}
	}
	took := regexp.MustCompile(`"plan_ms": [0-9.e+-]+`)
	for _, test := range [][]string{
		{"gpt.onnx", "seq=16", "--budget", "600KiB"},
		{"gpt.onnx", "seq=16", "--budget", "600KiB", "--max-overhead", "10%"},
		{"gpt.onnx", "seq=16", "--activation-budget", "300KiB", "--optimizer", "sgd"},
		{"mlp.onnx", "", "--budget", "100KiB"},
	} {
		model, dims, limits := test[0], test[1], test[2:]
		args := append([]string{"maxbatch", model, "-o", "max.json", "--format", "json", "-q"}, limits...)
		if dims != "" {
			args = append(args, "--dims", dims)
			dims = "," + dims
		}
		stdout, stderr, code := said(args...)
		if code != 0 {
			t.Fatalf("%v: %s", args, stderr)
		}
		most := 0.0
		gjson.Get(stdout, "ladder").ForEach(func(_, r gjson.Result) bool {
			if limit := r.Get("max_overhead"); limit.Type == gjson.Number && r.Get("overhead").Float() > limit.Float() {
				t.Errorf("%v: a rung of at most %v costs %v", args, limit, r.Get("overhead"))
			}
			if r.Get("size").Float() < most {
				t.Errorf("%v: a dearer rung has a smaller size: %s", args, r.Raw)
			}
			most = r.Get("size").Float()
			return true
		})
		size := gjson.Get(stdout, "size").Int()
		again := append([]string{"plan", model, "-o", "plan.json", "-q", "--dims", fmt.Sprintf("batch=%d%s", size, dims)}, limits...)
		if _, stderr, code := said(again...); code != 0 {
			t.Fatalf("%v: %s", again, stderr)
		}
		want, err := os.ReadFile("plan.json")
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile("max.json")
		if err != nil {
			t.Fatal(err)
		}
		if g, w := took.ReplaceAllString(string(got), ""), took.ReplaceAllString(string(want), ""); g != w {
			t.Errorf("%v: the plan of batch=%d is another than plan's (%d and %d bytes)", args, size, len(g), len(w))
		}
	}
}
