package bench

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"memopt/internal/schedule"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// VulkanDoc describes Vulkan's bench.
const VulkanDoc = "kernels, training steps, launches and plans under budgets on a Vulkan device; groups matmul, conv, attention, rows, chains, paths, steps, launches, budgets"

// VulkanOptions select what is measured, and on which device.
type VulkanOptions struct {
	Device   string        // a number or a part of a name; "": the best
	Only     []string      // groups; none: all
	Quick    bool          // a few short rounds
	Within   time.Duration // no case begins later than that; 0: no limit
	Rehearse bool          // the cases of graphics processors alone, small and on any device: a trial of what runs the bench
	Python   string        // interpreter with the peers installed
	Tune     string        // folder of what was measured of kernels; "": a model of the device chooses
	Progress func(what string)
}

// VulkanReport is the figures of one run on one device.
type VulkanReport struct {
	Device   VulkanDevice
	Kernels  Report // also whole steps
	Launches []LaunchRow
	Budgets  []BudgetRow
	// Notes are facts needed to judge the figures.
	Notes []string
}

// VulkanDevice is the device that was measured.
type VulkanDevice struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Driver string `json:"driver"` // with its version
	API    string `json:"api"`
}

// NoDeviceError says why there is no Vulkan device to measure, and what to install or specify.
type NoDeviceError struct{ err error }

func (e *NoDeviceError) Error() string { return e.err.Error() }

// Unwrap is the reason.
func (e *NoDeviceError) Unwrap() error { return e.err }

// ExitCode is that of a request that cannot be met.
func (e *NoDeviceError) ExitCode() int { return 1 }

// vulkanGroups lists the groups that are not tables of cases.
var vulkanGroups = []struct {
	name string
	run  func(*vulkanBench) error
}{
	{"launches", (*vulkanBench).launches},
	{"budgets", (*vulkanBench).budgets},
}

// VulkanGroups lists the groups for Only.
func VulkanGroups() (names []string) {
	for _, c := range vulkanCases {
		if !slices.Contains(names, c.group) {
			names = append(names, c.group)
		}
	}
	for _, g := range vulkanGroups {
		names = append(names, g.name)
	}
	return names
}

// vulkanBench is one run.
type vulkanBench struct {
	o      VulkanOptions
	gpu    *vk.Physical
	length rounds
	peers  *peers
	report *VulkanReport
	// baselines is sides used by many cases, by name.
	baselines map[string]Side
}

// Vulkan runs the bench.
func Vulkan(o VulkanOptions) (*VulkanReport, error) {
	if err := noGroup("vulkan", VulkanGroups(), o.Only); err != nil {
		return nil, err
	}
	gpu, err := vulkan.Choose(o.Device)
	if err != nil {
		return nil, &NoDeviceError{err}
	}
	b := &vulkanBench{o: o, gpu: gpu, length: rounds{count: 9, least: 60 * time.Millisecond}, peers: newPeers(o.Python), baselines: map[string]Side{},
		report: &VulkanReport{Kernels: Report{Bench: "vulkan"},
			Device: VulkanDevice{gpu.Index, gpu.Name, gpu.Kind.String(), gpu.Driver, fmt.Sprintf("%d.%d.%d", gpu.API[0], gpu.API[1], gpu.API[2])}}}
	if o.Quick {
		b.length = rounds{count: 3, least: 10 * time.Millisecond}
	}
	defer b.close()
	cases := vulkanCases
	if o.Rehearse {
		cases = slices.DeleteFunc(vulkanCasesOf(smallSizes), func(c *vulkanCase) bool { return !c.graphics })
	}
	begin, late := time.Now(), 0
	isLate := func() bool {
		if o.Within == 0 || time.Since(begin) <= o.Within {
			return false
		}
		late++
		return true
	}
	for _, c := range cases {
		if b.wants(c.group) && (!c.graphics || !b.software()) && b.offers(c.path) && !isLate() {
			if err := b.kernel(c); err != nil {
				return nil, fmt.Errorf("%s %s: %w", c.group, c.name, err)
			}
		}
	}
	for _, g := range vulkanGroups {
		if b.wants(g.name) && !isLate() {
			if err := g.run(b); err != nil {
				return nil, fmt.Errorf("%s: %w", g.name, err)
			}
		}
	}
	if late > 0 {
		b.note(fmt.Sprintf("%d cases are not measured, which would have begun after more than %v", late, o.Within))
	}
	b.report.Kernels.Peers, b.report.Kernels.Missing, b.report.Kernels.Unset = b.peers.found, b.peers.missing, unset()
	return b.report, nil
}

func (b *vulkanBench) wants(group string) bool {
	return len(b.o.Only) == 0 || slices.Contains(b.o.Only, group)
}

// offers reports whether the device has a fast path, and notes why not; "": no path.
func (b *vulkanBench) offers(path string) bool {
	if path == "" {
		return true
	}
	all, err := vulkan.FastPaths([]string{path}, b.gpu)
	if err != nil {
		b.note(err.Error())
	}
	for _, c := range all {
		if c.Named && !c.Taken {
			b.note(fmt.Sprintf("fast path %s is not measured: %s", path, c.Why))
		}
		if c.Taken {
			return true
		}
	}
	return false
}

func (b *vulkanBench) says(format string, args ...any) {
	if b.o.Progress != nil {
		b.o.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *vulkanBench) close() {
	for _, s := range b.baselines {
		s.Close()
	}
	b.peers.close()
}

// software reports whether the device runs on the processor, so that this process's clock measures
// its work.
func (b *vulkanBench) software() bool { return b.gpu.Kind == vk.CPU && !b.o.Rehearse }

// open prepares the device for a job under a plan, launch by launch.
func (b *vulkanBench) open(j job, r planner.Request) (*planner.Plan, *schedule.Schedule, *vulkan.Device, error) {
	r.Dims, r.Lowered = j.dims, true
	p, err := planner.Make(j.graph, r)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := vulkan.Open(s, b.gpu, vulkan.Options{Tune: b.o.Tune})
	return p, s, d, err
}

// ours is the device's side of a job, with everything kept, fused chains and the given fast paths.
func (b *vulkanBench) ours(what string, j job, fastPaths ...string) (Side, error) {
	p, err := planner.Make(j.graph, planner.Request{Dims: j.dims, Lowered: true, Strategy: "keep-all"})
	if err != nil {
		return nil, err
	}
	s, _, err := p.Chained()
	if err != nil {
		return nil, err
	}
	d, err := vulkan.Open(s, b.gpu, vulkan.Options{FastPaths: fastPaths, Tune: b.o.Tune})
	if err != nil {
		return nil, err
	}
	for _, w := range d.Warnings() {
		b.note(what + ": " + w)
	}
	return stepsOn(d, j), nil
}

func stepsOn(d *vulkan.Device, j job) Side {
	return local{func() error { return run(d, j) }, func() { d.Close() }}
}

func (b *vulkanBench) note(text string) {
	if !slices.Contains(b.report.Notes, text) {
		b.report.Notes = append(b.report.Notes, text)
	}
}

func run(d *vulkan.Device, j job) error {
	_, err := d.Run(schedule.Run{Inputs: j.inputs})
	return err
}

// threads lists the numbers of threads for a case. With one, the CPU time of all threads of a
// software driver counts, so a figure is per thread. Hardware is measured by the wall clock only.
func (b *vulkanBench) threads(c *vulkanCase) []int {
	most := runtime.GOMAXPROCS(0)
	switch {
	case !b.software():
		return []int{most}
	case c.byClock:
		return slices.Compact([]int{1, most})
	}
	return []int{1}
}

// kernel measures one case against all its rivals.
func (b *vulkanBench) kernel(c *vulkanCase) error {
	for _, threads := range b.threads(c) {
		if err := b.kernelOn(threads, c); err != nil {
			return err
		}
	}
	return nil
}

// kernelOn is kernel with a number of threads.
func (b *vulkanBench) kernelOn(threads int, c *vulkanCase) error {
	b.says("%s %s", c.group, c.name)
	j, err := c.job()
	if err != nil {
		return err
	}
	ours, err := b.ours(c.group+" "+c.name, j, c.paths()...)
	if err != nil {
		return err
	}
	defer ours.Close()
	sides := []Side{ours}
	var there []Rival
	var bars, goals []Bar
	for _, r := range c.rivals {
		side, err := r.side(b, c, threads)
		if err != nil {
			return err
		}
		if side == nil {
			continue
		}
		defer side.Close()
		sides, there, bars = append(sides, side), append(there, Rival{Name: r.name}), append(bars, r.bar)
		goals = append(goals, r.goal)
	}
	if !b.software() {
		for i := range sides {
			sides[i] = byWall{sides[i]}
		}
	}
	figures, err := b.length.measure(sides...)
	if err != nil {
		return err
	}
	row := Row{Case: Case{Group: c.group, Name: c.name, Work: c.work, Unit: c.unit}, Threads: threads, Here: figures[0]}
	for i, r := range there {
		row := row
		row.Rival, row.Bar, row.There = r, bars[i], figures[i+1]
		if !b.software() {
			row.Bar = goals[i] // bars apply to software drivers, which share the rivals' processor
		}
		row.Ratio = row.Bar.ratio(row.clock(row.Here), row.clock(row.There))
		row.Met = row.Bar.met(row.Ratio)
		b.report.Kernels.Rows = append(b.report.Kernels.Rows, row)
	}
	if len(there) == 0 {
		b.report.Kernels.Rows = append(b.report.Kernels.Rows, row)
	}
	return nil
}

// byWall is a side whose CPU time is meaningless.
type byWall struct{ Side }

func (w byWall) Run(n int) (Time, error) {
	t, err := w.Side.Run(n)
	return Time{Wall: t.Wall}, err
}

// share is a side that does another amount of work than the case: its times are multiplied by the
// factor. It stays open for other cases.
type share struct {
	side   Side
	factor float64
}

func (s share) Run(n int) (Time, error) {
	t, err := s.side.Run(n)
	return Time{t.Wall * s.factor, t.CPU * s.factor}, err
}

func (s share) Close() {}

// baseline opens a side once.
func (b *vulkanBench) baseline(name string, open func() (Side, error)) (Side, error) {
	if s := b.baselines[name]; s != nil {
		return s, nil
	}
	s, err := open()
	if err == nil {
		b.baselines[name] = s
	}
	return s, err
}

// processor is our CPU device's side of a case.
func processor(_ *vulkanBench, c *vulkanCase, threads int) (Side, error) {
	j, err := c.job()
	if err != nil {
		return nil, err
	}
	return onDevice(j, cpu.Options{Workers: threads})
}
