package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"memopt/internal/tensorfile"
)

// process runs a command in a process of its own, and returns its standard output.
func process(t *testing.T, line string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := exec.Command(self)
	c.Args = append([]string{"memopt"}, strings.Fields(line)...) // by its name it is the program
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, stderr.String())
	}
	return stdout.String()
}

// TestAnonymousMemory: whatever is saved, resumed, dumped or compared, the system counts
// no more memory without a file behind it than the step, its work space, a twentieth and
// 16 MiB. States alone take 95 MiB here: a copy of them would show.
func TestAnonymousMemory(t *testing.T) {
	alone(t)
	process(t, "new gpt -o m.onnx --layers 2 --width 512 --vocab 4096 --positions 32 --data d.npz --samples 4096 --seq 32")
	const dims = " --dims batch=2,seq=32 --device cpu --format json"
	for _, command := range []string{
		"train m.onnx --steps 2 --optimizer adamw --data d.npz --save s.safetensors --save-every 1",
		"train m.onnx --steps 1 --optimizer adamw --data d.npz --resume s.safetensors --save s.safetensors",
		"train m.onnx --steps 1 --optimizer sgd --data d.npz --save sgd.safetensors",
		"train m.onnx --data d.npz --dump ref.npz",
		"train m.onnx --check ref.npz",
	} {
		out := process(t, command+dims)
		a := gjson.Get(out, "memory.anonymous")
		if promised, measured := a.Get("promised").Int(), a.Get("measured").Int(); promised == 0 || measured == 0 || measured > promised {
			t.Errorf("%s: %s of a total of %s", command, a, gjson.Get(out, "memory.measured"))
		}
	}
}

// TestPackedDataIsCounted: data that cannot be mapped are told by name.
func TestPackedDataIsCounted(t *testing.T) {
	alone(t, "new mlp -o m.onnx --width 8 --inputs 4 --classes 3 --layers 1 --data d.npz --samples 8")
	data, err := tensorfile.ReadNPZ("d.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if data.Copied != 0 {
		t.Errorf("%d bytes of plain arrays were copied", data.Copied)
	}
	x := data.Tensors["x"]
	// The same numbers as one array of columns, in Fortran order.
	prefix := fmt.Sprintf("{'descr': '<f4', 'fortran_order': True, 'shape': (%d, %d), }", x.Shape[0], x.Shape[1])
	prefix += strings.Repeat(" ", -(10+len(prefix)+1)&63) + "\n"
	file := append([]byte("\x93NUMPY\x01\x00"), byte(len(prefix)), byte(len(prefix)>>8))
	if err := os.WriteFile("x.npy", append(append(file, prefix...), x.Bytes...), 0o666); err != nil {
		t.Fatal(err)
	}
	columns, err := tensorfile.ReadNPZ("x.npy")
	if err != nil {
		t.Fatal(err)
	}
	defer columns.Close()
	if columns.Copied != int64(len(x.Bytes)) {
		t.Errorf("%d of %d bytes in another order were copied", columns.Copied, len(x.Bytes))
	}
}
