package vulkan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/lab/zoo"
)

var faultSpec = zoo.Spec{Family: "mlp", Inputs: 12, Width: 20, Layers: 2, Classes: 5}

// failing stands for the n-th call of a name, from 0 on, while it is armed.
type failing struct {
	call  string
	n     int
	code  int32
	armed bool
}

func (f *failing) fault(call string) int32 {
	if !f.armed || call != f.call {
		return 0
	}
	if f.n--; f.n == -1 {
		return f.code
	}
	return 0
}

// TestNoMemory: whichever block the driver refuses, Open says which of the
// plan's spaces it was and what is large in it, and leaves nothing behind.
func TestNoMemory(t *testing.T) {
	gpu := device(t)
	s := trainStep(t, faultSpec)
	for code, is := range map[int32]error{-1: vk.ErrHostMemory, -2: vk.ErrDeviceMemory} {
		spaces := []string{"state of", "arena of", "staging of"}
		for n := range 5 { // what weights pass through and what runs change are among them
			f := failing{"vkAllocateMemory", n, code, true}
			d, err := vulkan.Open(s, gpu, vulkan.Options{Faults: f.fault})
			if err == nil {
				d.Close()
				break
			}
			if !errors.Is(err, is) {
				t.Errorf("refused block %d: %v", n, err)
			}
			if len(spaces) > 0 && strings.Contains(err.Error(), spaces[0]) && strings.Contains(err.Error(), "its largest value is ") {
				spaces = spaces[1:]
			}
		}
		if len(spaces) > 0 {
			t.Errorf("no refusal names %s", spaces[0])
		}
	}
}

// TestTooMuch: a plan that cannot fit is refused before the driver is asked, with
// both numbers.
func TestTooMuch(t *testing.T) {
	gpu := device(t)
	s := *trainStep(t, faultSpec)
	s.Arena = 1 << 50
	f := failing{"vkAllocateMemory", 0, -13, true}
	_, err := vulkan.Open(&s, gpu, vulkan.Options{Faults: f.fault})
	need := fmt.Sprintf("the plan needs %d bytes, but the device has ", s.Arena+s.State+s.Staging)
	if !errors.Is(err, vk.ErrDeviceMemory) || !strings.Contains(err.Error(), need) || f.n != 0 {
		t.Errorf("got %v", err)
	}
}

// TestLost: the step that fails names kernels and tensors; what is asked later
// is refused with the first cause, and closing gives everything back.
func TestLost(t *testing.T) {
	gpu := device(t)
	s := trainStep(t, faultSpec)
	for _, c := range []struct {
		code   int32
		is     error
		poison bool // so that every launch is a submission of its own
	}{{-4, vk.ErrDeviceLost, false}, {-4, vk.ErrDeviceLost, true}, {-2, vk.ErrDeviceMemory, true}, {2, vk.ErrTimeout, true}} {
		f := &failing{"vkQueueSubmit", 0, c.code, false}
		d, err := vulkan.Open(s, gpu, vulkan.Options{Poison: c.poison, Faults: f.fault})
		if err != nil {
			t.Fatal(err)
		}
		run := schedule.Run{Inputs: someInputs(s)}
		if _, err := d.Run(run); err != nil {
			t.Fatal(err)
		}
		want := []string{"kernel ", "it was running launches 0 to "}
		if f.armed = true; c.poison {
			f.n = 2
			l := s.Launches[2]
			want = []string{"it was running node \"" + l.Node.Name + "\"", "kernel ", fmt.Sprintf("%s%v", l.Out[0].Value.Name, l.Out[0].Shape)}
		}
		_, err = d.Run(run)
		if !errors.Is(err, c.is) {
			t.Fatalf("got %v", err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in %q", w, err)
			}
		}
		_, again := d.Run(run)
		_, state := d.State(s.Fixed[0].Value.Name)
		for what, err := range map[string]error{"a step": again, "reading": state} {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), "an earlier step failed") {
				t.Errorf("%s after the failure: %v", what, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBounce: where the processor does not see the device's memory, a copy that
// fails is an error that names the value, and ends the device's work like any other.
func TestBounce(t *testing.T) {
	gpu := device(t)
	s := trainStep(t, faultSpec)
	f := &failing{"vkQueueSubmit of copies", 1, -4, false}
	d, err := vulkan.Open(s, gpu, vulkan.Options{Hidden: true, Faults: f.fault})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	run := schedule.Run{Inputs: someInputs(s)}
	if _, err := d.Run(run); err != nil {
		t.Fatal(err)
	}
	f.armed = true
	if _, err := d.Run(run); !errors.Is(err, vk.ErrDeviceLost) || !strings.Contains(err.Error(), "input \"") {
		t.Errorf("got %v", err)
	}
	if _, err := d.Output(s.Outputs[0].Value.Name); !errors.Is(err, vk.ErrDeviceLost) || !strings.Contains(err.Error(), "an earlier step failed") {
		t.Errorf("reading after it: %v", err)
	}
	// A driver that has no memory for the bounce says so.
	f = &failing{"vkAllocateMemory", 4, -2, true}
	if _, err := vulkan.Open(s, gpu, vulkan.Options{Hidden: true, Faults: f.fault}); !errors.Is(err, vk.ErrDeviceMemory) {
		t.Errorf("no bounce: %v", err)
	}
}
