package vulkan_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// BenchmarkProduct times products of square matrices in the forms that training
// needs. What a software driver computes is the process's own time, which tells
// more on a busy machine than the clock: GFLOP/s of a core.
func BenchmarkProduct(b *testing.B) {
	for _, n := range []int{256, 512, 1024} {
		for form, attrs := range map[string]string{"NN": "", "NT": "transB=1", "TN": "transA=1"} {
			b.Run(fmt.Sprintf("%s/%d", form, n), func(b *testing.B) {
				step := benchmark(b, fmt.Sprintf("x f32[%d, %d] = input\ny f32[%d, %d] = input\nz = com.microsoft.FusedMatMul(x, y) %s @m\noutput z\n", n, n, n, n, attrs))
				before := cpuTime()
				for b.Loop() {
					step()
				}
				b.ReportMetric(2*float64(n*n*n)*float64(b.N)/(cpuTime()-before).Seconds()/1e9, "GFLOP/cpu-s")
			})
		}
	}
}

// BenchmarkRows times what moves as many bytes as it computes.
func BenchmarkRows(b *testing.B) {
	const rows = "[1024, 1024]"
	for _, c := range []string{"Gelu(x)", "Softmax(x)", "Add(x, x)", "Transpose(x) perm=[1, 0]", "ReduceSum(x, axes) keepdims=0"} {
		name, _, _ := strings.Cut(c, "(")
		b.Run(name, func(b *testing.B) {
			step := benchmark(b, "x f32"+rows+" = input\naxes i64[1] = const {0}\ny = "+c+" @n\noutput y\n")
			before := cpuTime()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N)/(1<<20), "cpu-ns/element")
		})
	}
}

// BenchmarkLaunch times what a launch takes of the thread that submits a step
// again, beside its kernels: a driver for the processor computes on others.
func BenchmarkLaunch(b *testing.B) {
	const n = 512
	var text strings.Builder
	text.WriteString("x0 f32[64] = input\nz f32[64] = input\n")
	for i := range n {
		fmt.Fprintf(&text, "x%d = Add(x%d, z) @n%d\n", i+1, i, i)
	}
	fmt.Fprintf(&text, "output x%d\n", n)
	step := benchmark(b, text.String())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	before := usedBy(rusageThread)
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64((usedBy(rusageThread)-before).Nanoseconds())/float64(b.N)/n, "host-ns/launch")
}

// rusageThread is RUSAGE_THREAD of Linux, which package syscall lacks.
const rusageThread = 1

func cpuTime() time.Duration { return usedBy(syscall.RUSAGE_SELF) }

func usedBy(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmark opens a device for a program and returns a step of it.
func benchmark(b *testing.B, text string) func() {
	d, in := opened(b, text)
	step := func() {
		if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
			b.Fatal(err)
		}
	}
	step() // drivers compile late
	return step
}

// opened is a device for a program, and its inputs, as zeros.
func opened(t testing.TB, text string) (*vulkan.Device, map[string]*graph.Tensor) {
	return openedWith(t, vulkan.Options{}, text)
}

func openedWith(t testing.TB, o vulkan.Options, text string) (*vulkan.Device, map[string]*graph.Tensor) {
	gpu := device(t)
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	s := keepAll(t, g)
	d, err := vulkan.Open(s, gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	in := map[string]*graph.Tensor{}
	for _, r := range s.Fixed {
		if r.Value.Kind == graph.Input {
			in[r.Value.Name] = graph.NewTensor(r.Value.Type, r.Shape...)
		}
	}
	return d, in
}
