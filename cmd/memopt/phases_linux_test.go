package main

import (
	"os"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// phaseModel is one whose weights are many times what the program takes, with one larger than the ring.
const phaseModel = "new gpt -o m.onnx --layers 4 --width 384 --vocab 12000 --seq 32"

// phaseDevices are those that a test runs on: the CPU's and, where there is one, Vulkan's.
func phaseDevices() []string {
	if os.Getenv("MEMOPT_NEED_VULKAN") != "" && os.Getenv("MEMOPT_TEST_LONG") != "" { // minutes of a driver for processors
		return []string{"cpu", "vulkan"}
	}
	return []string{"cpu"}
}

// TestPhasesOfTraining: in every phase the device holds what was promised, to the byte, and the system sees no more of the
// process than that, what the device works in, a twentieth, 16 MiB and what the driver holds; writing checkpoints adds
// a few MiB at most, though the largest tensor has 18.
func TestPhasesOfTraining(t *testing.T) {
	devices := phaseDevices()
	alone(t, phaseModel)
	for _, device := range devices {
		for _, flags := range []string{"", " --clip-norm 1 --optimizer adamw", " --accumulate 2"} {
			out := process(t, "train m.onnx --dims batch=4,seq=32 --steps 4 --phases --format json --save s.st -o out.onnx --device "+device+flags)
			rows := map[string]gjson.Result{}
			for _, p := range gjson.Get(out, "phases").Array() {
				name := p.Get("phase").String()
				rows[name] = p
				if got, want := p.Get("device.high").Int(), p.Get("promised").Int(); got != want && name != "U1" {
					t.Errorf("%s%s, %s: the device held %d, and %d were promised", device, flags, name, got, want)
				}
				if got, want := p.Get("host_system.high").Int(), p.Get("promised_host").Int(); want > 0 && got > want {
					t.Errorf("%s%s, %s: the system saw %d, and %d were promised\n%s", device, flags, name, got, want, p.Raw)
				}
			}
			for _, name := range strings.Fields("P0 P1 P2 P3 P4 P5 P6 P7 T1 T2 T3 T4 T4N T5 U1") {
				if !rows[name].Exists() {
					t.Errorf("%s%s: no phase %s", device, flags, name)
				}
			}
			if grew := rows["T5"].Get("host_system.high").Int() - rows["T4N"].Get("host_system.point").Int(); grew > 6<<20 {
				t.Errorf("%s%s: the process grew by %d for a checkpoint", device, flags, grew)
			}
			parts := gjson.Get(out, "phase_parts")
			if m := parts.Get("M").Int(); m != gjson.Get(out, "memory.promised").Int() || m != rows["T3"].Get("promised").Int()-parts.Get("c").Int() {
				t.Errorf("%s%s: the parts are %s of a total of %s", device, flags, parts, gjson.Get(out, "memory"))
			}
			if zeroed, o := parts.Get("zeroed").Int(), parts.Get("O").Int(); zeroed < o || parts.Get("uploaded").Int() > parts.Get("W").Int()+64 {
				t.Errorf("%s%s: %s", device, flags, parts)
			}
		}
	}
}

// TestPhasesOfRuns: in every phase the system sees no more of the process than what was promised for it, whatever the
// arena does; what it has beside inputs, weights and values stays as it is.
func TestPhasesOfRuns(t *testing.T) {
	devices := phaseDevices()
	alone(t, phaseModel)
	for _, device := range devices {
		for _, flags := range []string{"", " --bind import", " --enable-mem-pattern off", " --beside m.onnx"} {
			if device != "cpu" && flags != "" {
				continue
			}
			out := process(t, "run m.onnx --dims batch=16,seq=32 --repeat 3 --phases --format json -o o.npz --device "+device+flags)
			held := gjson.Get(out, "measured.total").Int()
			for _, p := range gjson.Get(out, "phases").Array() {
				name := device + flags + ", " + p.Get("phase").String()
				if got, want := p.Get("device.high").Int(), p.Get("promised").Int(); got > want && !strings.HasSuffix(name, "U1") {
					t.Errorf("%s: the device held %d, and %d were promised", name, got, want)
				}
				want := p.Get("promised_host").Int()
				if got := p.Get("host_system.high").Int(); want > 0 && got > want {
					t.Errorf("%s: the system saw %d, and %d were promised\n%s", name, got, want, p.Raw)
				}
				if most := 3*held + 110<<20; want > most {
					t.Errorf("%s: promising %d is no promise; the program holds %d", name, want, held)
				}
				if rest := p.Get("host_rest").Int(); device == "cpu" && (rest < 0 || rest > 8<<20) {
					t.Errorf("%s: the process has %d beside what is named", name, rest)
				}
			}
		}
	}
}

// TestModesOfLoads: every mode in one run holds what its formula says, the process beside it little, and streaming takes half
// of what loading eagerly does.
func TestModesOfLoads(t *testing.T) {
	devices := phaseDevices()
	alone(t, phaseModel)
	for _, device := range devices {
		mode := "all"
		if os.Getenv("MEMOPT_VULKAN_HIDDEN") != "" && device == "vulkan" {
			mode = "streamed"
		}
		out := process(t, "load m.onnx --dims batch=4,seq=32 --mode "+mode+" --reloads 0 --repeats 2 --format json --device "+device)
		loads := gjson.Get(out, "loads").Array()
		if mode != "all" {
			loads = []gjson.Result{gjson.Parse(out)}
		}
		for _, l := range loads {
			name := device + ", " + l.Get("mode").String()
			if got, want := l.Get("device_measured").Int(), l.Get("device_promised").Int(); got != want {
				t.Errorf("%s: the device held %d, and %d were promised", name, got, want)
			}
			if got, want := l.Get("measured").Int(), l.Get("promised").Int(); got > want || got < want-4<<20 {
				t.Errorf("%s: device and host held %d, and %d were promised", name, got, want)
			}
			if l.Get("mode").String() == "streamed" {
				if got, most := l.Get(`phases.#(phase=="P5").device.high`).Int(), l.Get("W").Int()+16<<20; got > most {
					t.Errorf("%s: %d while weights go up, of at most %d", name, got, most)
				}
				if grew := l.Get("spread.host_growth.max").Int(); grew > 20e6 {
					t.Errorf("%s: the host's memory grew by %d", name, grew)
				}
			}
			for _, p := range l.Get("phases").Array() {
				if got, most := p.Get("host_system.high").Int(), p.Get("promised_host").Int(); most > 0 && got > most {
					t.Errorf("%s, %s: the system saw %d, and %d were promised", name, p.Get("phase"), got, most)
				}
			}
			if s := l.Get("spread.device"); s.Get("min").Int() != s.Get("max").Int() || l.Get("repeats").Int() != 2 {
				t.Errorf("%s: %s", name, s)
			}
		}
		if ratio := gjson.Get(out, "eager_to_streamed.0.ratio").Float(); mode == "all" && ratio < 1.7 {
			t.Errorf("%s: eager takes %.2f × of streamed", device, ratio)
		}
	}
}
