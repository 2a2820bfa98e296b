//go:build cgo && linux

package vk

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// validating is whether the tests run under the validation layer.
var validating = os.Getenv("MEMOPT_VULKAN_VALIDATE") != ""

func open(t *testing.T) (*Instance, *Device) {
	t.Helper()
	i, err := Load(validating)
	if err == nil {
		var all []*Physical
		if all, err = i.Devices(); err == nil && len(all) == 0 {
			err = errors.New("Vulkan offers no device")
		}
		if err == nil && all[0].Unfit() == "" {
			d, err := i.Open(all[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if d.Live() != 0 {
					t.Errorf("%d objects are left", d.Live())
				}
				d.Close()
				if said := i.Messages(); said != "" {
					t.Errorf("the validation layer says:\n%s", said)
				}
			})
			return i, d
		}
	}
	if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
	return nil, nil
}

// TestNoLoader: a machine without Vulkan gets a plain answer.
func TestNoLoader(t *testing.T) {
	t.Setenv(libraryVariable, "nonsuch.so")
	if _, err := load(false); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "nonsuch.so is not installed") {
		t.Errorf("got %v", err)
	}
}

// TestWithoutCgo: the rest of the program builds where there is no C compiler.
func TestWithoutCgo(t *testing.T) {
	c := exec.Command("go", "vet", ".", "..")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// doubling is a shader that doubles a word: it was compiled from
//
//	layout(local_size_x_id = 0) in;
//	layout(push_constant) uniform P { uint by; };
//	layout(binding = 0) buffer Y { uint y[]; };
//	void main() { y[gl_GlobalInvocationID.x] *= by; }
const doubling = "testdata/times.spv"

func (b *Block) words(n int) []uint32 { return unsafe.Slice((*uint32)(b.Mapped()), n) }

// TestLists: what is recorded once runs many times, with its constants.
func TestLists(t *testing.T) {
	t.Run("sets", func(t *testing.T) { lists(t, false) })
	t.Run("pushed", func(t *testing.T) { lists(t, true) })
}

func lists(t *testing.T, push bool) {
	_, d := open(t)
	if push && d.Physical.PushDescriptors == 0 {
		t.Skip("no VK_KHR_push_descriptor")
	}
	const n = 256
	b, err := d.NewBlock(4*n, Host)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(b)
	code, err := os.ReadFile(doubling)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.NewPipeline(code, []uint32{64}, 1, 4, push)
	if err != nil {
		t.Fatal(err)
	}
	defer d.FreePipeline(p)
	if p.Pushed() != push {
		t.Fatalf("pushed: %v", p.Pushed())
	}
	var set uint64
	bindings := []Binding{{b, 0, 4 * n}}
	if !push {
		s, err := d.NewSets([]*Pipeline{p}, [][]Binding{bindings})
		if err != nil {
			t.Fatal(err)
		}
		defer d.FreeSets(s)
		set, bindings = s.Handles[0], nil
	}
	q, err := d.NewQueries(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.FreeQueries(q)
	commands := []Command{
		{Kind: Dispatch, Pipeline: p, Set: set, Bindings: bindings, Push: []uint32{2}, Groups: [3]uint32{n / 64, 1, 1}},
		{Kind: Barrier},
		{Kind: Dispatch, Pipeline: p, Set: set, Bindings: bindings, Push: []uint32{3}, Groups: [3]uint32{n / 64, 1, 1}},
		{Kind: Barrier, Host: true},
	}
	if q != nil {
		commands = append(append([]Command{{Kind: Reset, Value: 2}, {Kind: Time, Value: 0}}, commands...), Command{Kind: Time, Value: 1})
	}
	l, err := d.Record(commands, q)
	if err != nil {
		t.Fatal(err)
	}
	defer d.FreeList(l)
	for i := range b.words(n) {
		b.words(n)[i] = uint32(i)
	}
	for range 3 {
		if err := d.Submit([]*List{l}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range b.words(n) {
		if v != uint32(i)*6*6*6 {
			t.Fatalf("word %d is %d", i, v)
		}
	}
	if q != nil {
		if times, err := d.Times(q); err != nil || times[1] <= 0 {
			t.Errorf("times %v, %v", times, err)
		}
	}
}

// TestCollector: nothing that Vulkan reads is in the collector's hands. Its
// slices of structs were, in the binding, and a program crashed within a second.
func TestCollector(t *testing.T) {
	_, d := open(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var stop atomic.Bool
	done := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			n += len(make([]byte, 1<<12)) + len(strings.Repeat("x", 300))
			runtime.Gosched()
		}
		done <- n
	}()
	defer func() { stop.Store(true); <-done }()
	code, err := os.ReadFile(doubling)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < time.Second; {
		b, err := d.NewBlock(1024, Host)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.NewPipeline(bytes.Clone(code), []uint32{64}, 1, 4, false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.NewSets([]*Pipeline{p, p}, [][]Binding{{{b, 0, 512}}, {{b, 512, 512}}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Record([]Command{
			{Kind: Fill, To: b, Bytes: 1024, Value: 1},
			{Kind: Barrier},
			{Kind: Dispatch, Pipeline: p, Set: s.Handles[0], Push: []uint32{2}, Groups: [3]uint32{2, 1, 1}},
			{Kind: Dispatch, Pipeline: p, Set: s.Handles[1], Push: []uint32{5}, Groups: [3]uint32{2, 1, 1}},
			{Kind: Barrier, Host: true},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Submit([]*List{l}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if w := b.words(256); w[0] != 2 || w[127] != 2 || w[128] != 5 || w[255] != 5 {
			t.Fatalf("words %v", w)
		}
		d.FreeList(l)
		d.FreeSets(s)
		d.FreePipeline(p)
		d.Free(b)
	}
}

// TestBlocks: sizes are each call's own, what is too much is refused before the
// driver is asked, and all of it comes back.
func TestBlocks(t *testing.T) {
	_, d := open(t)
	for _, n := range []int64{0, 1, 1 << 10, 1 << 20, 3} {
		b, err := d.NewBlock(n, Near)
		if err != nil {
			t.Fatal(err)
		}
		if b.Bytes != n || b.Granted < n {
			t.Errorf("asked for %d bytes, got %d", n, b.Granted)
		}
		d.Free(b)
	}
	if most := d.Physical.MaxAllocation; most < 1<<62 {
		if _, err := d.NewBlock(int64(most)+4, Near); !errors.Is(err, ErrDeviceMemory) {
			t.Errorf("more than the device gives at once: %v", err)
		}
	}
}

// TestCycles: devices come and go without a trace.
func TestCycles(t *testing.T) {
	i, d := open(t)
	resident := func() (pages int64) {
		stat, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip(err)
		}
		if pages, err = strconv.ParseInt(strings.Fields(string(stat))[1], 10, 64); err != nil {
			t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	cycle := func() {
		e, err := i.Open(d.Physical)
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.NewBlock(1<<20, Host)
		if err != nil {
			t.Fatal(err)
		}
		clear(b.words(1 << 18))
		e.Free(b)
		if e.Live() != 0 {
			t.Errorf("%d objects are left", e.Live())
		}
		e.Close()
	}
	// The allocator's pools fill up first, so growth must come to an end: a leak
	// of 200 KB a cycle would show in every batch.
	grown := int64(0)
	for range 10 {
		before := resident()
		for range 20 {
			cycle()
		}
		if grown = resident() - before; grown < 4<<20 || validating {
			return
		}
	}
	t.Errorf("20 cycles still grow the process by %d bytes", grown)
}

// TestWatched: the validation layer is really there, and sees what is wrong.
func TestWatched(t *testing.T) {
	if !validating {
		t.Skip("MEMOPT_VULKAN_VALIDATE is not set")
	}
	i, d := open(t)
	b, err := d.NewBlock(64, Near)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(b)
	l, err := d.Record([]Command{
		{Kind: Fill, To: b, Bytes: 32},
		{Kind: Copy, From: b, To: b, ToAt: 32, Bytes: 32}, // and no barrier
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.FreeList(l)
	if said := i.Messages(); !strings.Contains(strings.ToUpper(said), "HAZARD") { // layers differ in how they spell it
		t.Errorf("a missing barrier was not seen: %q", said)
	}
}

func TestErrors(t *testing.T) {
	err := check("vkAllocateMemory", -2)
	if !errors.Is(err, ErrDeviceMemory) || err.Error() != "vkAllocateMemory: out of device memory (VK_ERROR_OUT_OF_DEVICE_MEMORY)" {
		t.Errorf("got %v", err)
	}
	if err := check("vkQueueSubmit", -4); !errors.Is(err, ErrDeviceLost) {
		t.Errorf("got %v", err)
	}
	if err := check("vkX", -77); err.Error() != "vkX: VkResult -77" {
		t.Errorf("got %v", err)
	}
}
