package vulkan_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
)

// TestTune: what is measured is kept and not measured again, decides what runs, and changes no bit; a
// file that is none is made again.
func TestTune(t *testing.T) {
	const text = "x f32[130, 70] = input\ny f32[70, 90] = input\nw f32[90, 20] = input\na = MatMul(x, y) @a\nz = MatMul(a, w) @b\noutput z\n"
	folder := t.TempDir()
	run := func(folder string) ([]byte, *vulkan.Device) {
		d, in := openedWith(t, vulkan.Options{Tune: folder}, text)
		for _, v := range in {
			for i := range v.Len() {
				v.SetFloat(i, math.Sin(float64(i)))
			}
		}
		if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
			t.Fatal(err)
		}
		return must(d.Output("z")).Bytes, d
	}
	want, plain := run("")
	if plain.Tuned() != nil {
		t.Error("kernels were measured without being asked to")
	}
	got, d := run(folder)
	tuned := d.Tuned()
	if !bytes.Equal(got, want) {
		t.Error("measuring changes bits")
	}
	if len(tuned.Measured) != 2 || tuned.Known != 0 || len(tuned.Left) != 0 {
		t.Fatalf("measured: %+v", tuned)
	}
	for _, x := range tuned.Measured {
		if x.Took <= 0 || x.Took > x.Would {
			t.Errorf("%s: %s takes %v and the expected %s %v", x.Class, x.Variant, x.Took, x.Expected, x.Would)
		}
	}
	if _, d := run(folder); len(d.Tuned().Measured) != 0 || d.Tuned().Known != 2 {
		t.Errorf("the second time: %+v", d.Tuned())
	}
	kept, err := os.ReadFile(tuned.File)
	if err != nil {
		t.Fatal(err)
	}
	for broken, warns := range map[string]bool{"{": true, `{"format": "another"}`: true, strings.ReplaceAll(string(kept), tuned.Measured[0].Variant, "no variant"): false} {
		if err := os.WriteFile(tuned.File, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		got, d := run(folder)
		if !bytes.Equal(got, want) || len(d.Tuned().Measured) == 0 {
			t.Errorf("with %q: %+v", broken, d.Tuned())
		}
		if said := strings.Contains(strings.Join(d.Warnings(), "\n"), "is made again"); said != warns {
			t.Errorf("with %q: warnings %q", broken, d.Warnings())
		}
	}
}
