package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// LaunchRow is the overhead of a step besides its kernels. Times are the least of the rounds.
type LaunchRow struct {
	Program  string  `json:"program"`
	Launches int     `json:"launches"`
	HostUS   float64 `json:"host_us"`   // CPU time of the calling thread per launch, without inputs
	StepUS   float64 `json:"step_us"`   // CPU time of the calling thread, for resubmitting a step
	InputsUS float64 `json:"inputs_us"` // part of it for uploading the step's inputs
	BareUS   float64 `json:"bare_us"`   // part of it for the driver: see bare
	OwnUS    float64 `json:"own_us"`    // the rest, per launch
	WallUS   float64 `json:"wall_us"`   // wall time per launch, including kernels and driver
	RecordUS float64 `json:"record_us"` // CPU time of the calling thread per launch, for recording commands
	OpenMS   float64 `json:"open_ms"`   // from the schedule to recorded commands
	FirstMS  float64 `json:"first_ms"`  // the first step, in which drivers compile
	Met      bool    `json:"met"`
	// Submits is of a step, without fused chains.
	Submits vulkan.Counts `json:"submits"`
}

// hostBar is the most microseconds of the host per launch, including its share of the driver's
// submission. Inputs are excluded, as their time depends on their size only.
const hostBar = 1

// chain is a program of launches that each wait for the previous one.
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
		row, err := b.launchRow(p.name, p.job)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.report.Launches = append(b.report.Launches, row)
	}
	return nil
}

// launchRow is the best result of several devices for a program.
func (b *vulkanBench) launchRow(name string, source func() (job, error)) (LaunchRow, error) {
	row := LaunchRow{Program: name}
	for _, least := range []*float64{&row.StepUS, &row.InputsUS, &row.BareUS, &row.WallUS, &row.RecordUS, &row.OpenMS, &row.FirstMS} {
		*least = math.Inf(1)
	}
	for range min(b.length.count, 3) {
		if err := b.launch(&row, source); err != nil {
			return row, err
		}
	}
	row.HostUS = max(0, row.StepUS-row.InputsUS) / float64(row.Launches)
	row.OwnUS = max(0, row.StepUS-row.InputsUS-row.BareUS) / float64(row.Launches)
	row.Met = row.HostUS <= hostBar
	return row, nil
}

// launch measures with a new device, as commands are recorded once.
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
	row.Launches, row.Submits = len(s.Launches), d.Counts()
	n := float64(row.Launches)
	micros := func(t time.Duration) float64 { return float64(t) / 1e3 / n }
	begin = time.Now()
	if err := run(d, j); err != nil {
		return err
	}
	bare, end, err := b.bare(max(d.Memory().Requested, leastBare), time.Since(begin))
	if err != nil {
		return err
	}
	defer end()
	for range 10 * b.length.count {
		// Run a whole step before the measurement, so that caches have its content.
		if err := run(d, j); err != nil {
			return err
		}
		begin := time.Now()
		for _, part := range []struct {
			least *float64
			do    func() error
		}{{&row.StepUS, func() error { return run(d, j) }}, {&row.InputsUS, func() error { return bring(d, j) }}, {&row.BareUS, bare}} {
			took, err := onThread(part.do)
			if err != nil {
				return err
			}
			if *part.least = min(*part.least, float64(took)/1e3); part.least == &row.StepUS {
				row.WallUS = min(row.WallUS, micros(time.Since(begin)))
			}
		}
	}
	// A run without updates records its own commands at first; the second run only submits them.
	partial := func() error {
		_, err := d.Run(schedule.Run{Inputs: j.inputs, Accumulate: true})
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

// leastBare is the least bytes of a fill in a bare submission, to limit their number.
const leastBare = 1 << 20

// bare measures the driver's part of a step with as many bytes and the same duration: it submits
// one list of fills of as many bytes, which cost the calling thread nothing, and waits. The thread
// sleeps as long as in the step, and finds its caches as cold.
func (b *vulkanBench) bare(bytes int64, took time.Duration) (submit func() error, end func(), err error) {
	i, err := vk.Load(false)
	if err != nil {
		return nil, nil, err
	}
	d, err := i.Open(b.gpu)
	if err != nil {
		return nil, nil, err
	}
	var lists []*vk.List
	var block *vk.Block
	end = func() {
		for _, l := range lists {
			d.FreeList(l)
		}
		d.Free(block)
		d.Close()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if block, err = d.NewBlock(bytes, vk.Near); err != nil {
		return nil, nil, err
	}
	fills := func(n int) (submit func() error, err error) {
		fill := []vk.Command{{Kind: vk.Fill, To: block, Bytes: vk.WholeWords(bytes)}, {Kind: vk.Barrier}}
		l, err := d.Record(slices.Repeat(fill, n), nil)
		if err != nil {
			return nil, err
		}
		lists = append(lists, l)
		work := []*vk.List{l}
		return func() error { return d.Submit(work, time.Minute) }, nil
	}
	if submit, err = fills(1); err != nil {
		return nil, nil, err
	}
	least := took
	for range 5 {
		begin := time.Now()
		if err = submit(); err != nil {
			return nil, nil, err
		}
		least = min(least, time.Since(begin))
	}
	submit, err = fills(max(1, int(took/max(least, 1))))
	return submit, end, err
}

// bring uploads a step's inputs, as a step does.
func bring(d *vulkan.Device, j job) error {
	for name, x := range j.inputs {
		if err := d.SetState(name, x); err != nil {
			return err
		}
	}
	return nil
}
