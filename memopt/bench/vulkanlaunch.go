package bench

import (
	"fmt"
	"math"
	"strings"
	"time"

	"memopt/kernels/vulkan"
	"memopt/memopt/graph"
	"memopt/planner"
)

// LaunchRow is what a step costs beside its kernels. Times are the smallest of
// the rounds.
type LaunchRow struct {
	Program  string  `json:"program"`
	Launches int     `json:"launches"`
	HostUS   float64 `json:"host_us"`   // of the calling thread's processor time, for each launch when the step is submitted again, but for what its inputs take
	InputsUS float64 `json:"inputs_us"` // of that thread, for the step's inputs to be brought to the device
	WallUS   float64 `json:"wall_us"`   // of the clock, for each launch: the kernels and the driver too
	RecordUS float64 `json:"record_us"` // of the calling thread, for each launch when commands are recorded anew
	OpenMS   float64 `json:"open_ms"`   // from the schedule to commands that are ready
	FirstMS  float64 `json:"first_ms"`  // the first step, where drivers compile
	Met      bool    `json:"met"`
}

// hostBar is the most microseconds of the host that a launch may take.
const hostBar = 1

// chain is a program that is nothing but launches, each waiting for the last.
func chain(n int) func() (job, error) {
	var text strings.Builder
	text.WriteString("x0 f32[1024] = param\nz f32[1024] = param\n")
	for i := range n {
		fmt.Fprintf(&text, "x%d = Add(x%d, z)\n", i+1, i)
	}
	fmt.Fprintf(&text, "output x%d", n)
	return written(text.String())
}

func (b *vulkanBench) launches() error {
	for _, p := range []struct {
		name string
		job  func() (job, error)
	}{{"512 Adds in a chain", chain(512)}, {"the MLP's step", mlpStep}, {"the block's step", blockStep}} {
		b.says("launches of %s", p.name)
		row := LaunchRow{Program: p.name, HostUS: math.Inf(1), InputsUS: math.Inf(1), WallUS: math.Inf(1), RecordUS: math.Inf(1), OpenMS: math.Inf(1), FirstMS: math.Inf(1)}
		for range min(b.length.count, 3) {
			if err := b.launch(&row, p.job); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		row.Met = row.HostUS <= hostBar
		b.report.Launches = append(b.report.Launches, row)
	}
	return nil
}

// launch measures on a device of its own, for commands are recorded once.
func (b *vulkanBench) launch(row *LaunchRow, source func() (job, error)) error {
	j, err := source()
	if err != nil {
		return err
	}
	begin := time.Now()
	_, s, d, err := b.open(j, planner.Request{Strategy: "keep-all"})
	if err != nil {
		return err
	}
	defer d.Close()
	row.OpenMS = min(row.OpenMS, time.Since(begin).Seconds()*1e3)
	begin = time.Now()
	if err := run(d, j); err != nil {
		return err
	}
	row.FirstMS = min(row.FirstMS, time.Since(begin).Seconds()*1e3)
	row.Launches = len(s.Launches)
	n := float64(row.Launches)
	micros := func(t time.Duration) float64 { return float64(t) / 1e3 / n }
	step := math.Inf(1)
	for range 10 * b.length.count {
		// What is measured comes behind a whole step: caches are full of that.
		if err := run(d, j); err != nil {
			return err
		}
		begin := time.Now()
		host, err := onThread(func() error { return run(d, j) })
		if err != nil {
			return err
		}
		step, row.WallUS = min(step, float64(host)/1e3), min(row.WallUS, micros(time.Since(begin)))
		inputs, err := onThread(func() error { return bring(d, j) })
		if err != nil {
			return err
		}
		row.InputsUS = min(row.InputsUS, float64(inputs)/1e3)
	}
	row.HostUS = min(row.HostUS, max(0, step-row.InputsUS)/n)
	// A run without updates records commands of its own when it is first asked
	// for; the second only submits them.
	partial := func() error {
		_, err := d.Run(planner.Run{Inputs: j.inputs, Accumulate: true})
		return err
	}
	first, err := onThread(partial)
	if err != nil {
		return err
	}
	again, err := onThread(partial)
	if err != nil {
		return err
	}
	recorded := 0
	for _, l := range s.Launches {
		if l.Node == nil || l.Node.Phase != graph.Updating {
			recorded++
		}
	}
	row.RecordUS = min(row.RecordUS, float64(max(0, first-again))/1e3/float64(max(1, recorded)))
	return nil
}

// bring takes a step's inputs to the device, as a step does.
func bring(d *vulkan.Device, j job) error {
	for name, x := range j.inputs {
		if err := d.SetState(name, x); err != nil {
			return err
		}
	}
	return nil
}
