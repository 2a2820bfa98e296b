package main

import (
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/devices"
	"memopt/memopt/lab/bench"
	"memopt/memopt/step"
)

var benchCommand = &cli.Command{
	Name:      "bench",
	Category:  "This machine",
	Usage:     "measure this build, compared with a peer or a baseline if there is one",
	ArgsUsage: "WHAT",
	UsageText: "memopt bench cpu --quick\n" +
		"memopt bench cpu --only matmul,mlp --python .venv/bin/python\n" +
		"memopt bench torch --only gpt2 --quick\n" +
		"memopt bench fit --only llama,bert\n" +
		"memopt bench planner --without recompute/evict\n" +
		"memopt bench vulkan --device vulkan:llvmpipe --only steps,budgets",
	Description: benchList(),
	Flags: common(
		&cli.StringFlag{Name: "only", Usage: "`GROUPS` measure only these, such as matmul,mlp"},
		&cli.StringFlag{Name: "with", Usage: "`FILES` planner: also plan and pack these joint graphs and MiniMalloc CSVs"},
		&cli.StringFlag{Name: "without", Usage: "`PASSES` planner: measure what these passes, or \"each\", contribute on the corpus; --only selects steps"},
		&cli.BoolFlag{Name: "quick", Usage: "a few short rounds: rough figures in seconds"},
		&cli.StringFlag{Name: "device", Usage: "`NAME` vulkan: vulkan:1 or vulkan:PART-OF-NAME (default the best)"},
		&cli.DurationFlag{Name: "within", Usage: "`TIME` vulkan: begin no case later than this, such as 30s, and show those that were measured"},
		&cli.BoolFlag{Name: "rehearse", Usage: "vulkan: try the cases of graphics processors, small, on any device; their figures mean nothing"},
		&cli.BoolFlag{Name: "tune", Usage: "vulkan: choose kernels by measuring, and keep the choice for \"--tune on\" of other commands"},
		&cli.IntFlag{Name: "threads", Usage: "`N` use N threads (default: measure 1 and all cores)"},
		&cli.StringFlag{Name: "python", Usage: "`PATH` Python interpreter with the peers installed (default MEMOPT_PYTHON, else python3)"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "WHAT")
		if err != nil {
			return err
		}
		run, ok := benchKinds[c.Args().First()]
		if !ok {
			run = benchCases
		}
		var only []string
		if c.IsSet("only") {
			only = strings.Split(c.String("only"), ",")
		}
		s := newStatus(c)
		text, file, err := run(c, only, func(what string) { s.show("%s", what) })
		s.clear()
		if err != nil {
			return err
		}
		head := bench.NewHead(c.Args().First(), typed(c, configs.Config{}), step.Version)
		if asJSON {
			return printJSON(c.App.Writer, file(head))
		}
		head.Text(c.App.Writer)
		text(c.App.Writer)
		return nil
	},
}

// benchRun runs a bench, and returns functions that print the result as text and as JSON.
type benchRun func(c *cli.Context, only []string, progress func(what string)) (text func(io.Writer), file func(bench.Head) any, err error)

// benchKinds lists the benches that are not tables of cases.
var benchKinds = map[string]benchRun{"fit": benchFit, "planner": benchPlanner, "plugin": benchPlugin, "torch": benchTorch, "vulkan": benchVulkan}

// benchCases runs a table of cases.
func benchCases(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	b, err := bench.Find(c.Args().First())
	if err != nil {
		return nil, nil, asInput(err)
	}
	o := bench.Options{Only: only, Quick: c.Bool("quick"), Python: benchPython(c.String("python")), Progress: progress}
	if n := c.Int("threads"); n != 0 {
		if n < 1 || n > 1024 {
			return nil, nil, usage("--threads is a number from 1 to 1024, not %d", n)
		}
		o.Threads = []int{n}
	}
	r, err := b.Run(o)
	if err != nil {
		return nil, nil, asInput(err)
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// benchList lists the benches for the help.
func benchList() string {
	var s strings.Builder
	for _, b := range bench.Benches {
		s.WriteString("\n" + b.Name + ": " + b.Doc + "; groups " + strings.Join(b.Groups(), ", "))
	}
	s.WriteString("\nfit: " + bench.FittedDoc + "\nplanner: " + bench.PlannerDoc + "\nplugin: " + bench.PluginDoc + "\ntorch: " + bench.TorchDoc + "\nvulkan: " + bench.VulkanDoc)
	return s.String()
}

// benchPlanner runs the planner's bench.
func benchPlanner(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	o := bench.PlannerOptions{Only: only, Quick: c.Bool("quick"), Progress: progress}
	if c.IsSet("with") {
		o.Files = strings.Split(c.String("with"), ",")
	}
	if c.IsSet("without") {
		o.Without = strings.Split(c.String("without"), ",")
	}
	var err error
	if o.Binary, err = os.Executable(); err != nil {
		return nil, nil, err
	}
	r, err := bench.Planner(o)
	if err != nil {
		return nil, nil, asInput(err)
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// benchPlugin runs the service's bench with this executable.
func benchPlugin(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	for _, flag := range []string{"device", "threads", "python"} {
		if c.IsSet(flag) {
			return nil, nil, usage("bench plugin has no --%s", flag)
		}
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	r, err := bench.Plugin(bench.PluginOptions{Binary: binary, Only: only, Quick: c.Bool("quick"), Progress: progress})
	if err != nil {
		return nil, nil, err
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// benchVulkan runs the bench of a Vulkan device.
func benchVulkan(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	kind, which, _ := strings.Cut(c.String("device"), ":")
	if c.IsSet("device") && kind != "vulkan" {
		return nil, nil, usage("--device of bench vulkan is vulkan, vulkan:N or vulkan:PART-OF-NAME, not %q", c.String("device"))
	}
	if c.IsSet("threads") {
		return nil, nil, usage("bench vulkan has no --threads: LP_NUM_THREADS sets how many threads lavapipe has")
	}
	folder, err := devices.TuneFolder(configs.Config{Tune: c.Bool("tune")})
	if err != nil {
		return nil, nil, err
	}
	r, err := bench.Vulkan(bench.VulkanOptions{Device: which, Only: only, Quick: c.Bool("quick"), Within: c.Duration("within"), Rehearse: c.Bool("rehearse"), Python: benchPython(c.String("python")), Tune: folder, Progress: progress})
	if err != nil {
		return nil, nil, asInput(err)
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// benchTorch runs PyTorch's bench.
func benchTorch(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	o, err := torchOptions(c, only, progress)
	if err != nil {
		return nil, nil, err
	}
	r, err := bench.Torch(o)
	if err != nil {
		return nil, nil, asInput(err)
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// benchFit runs the bench of steps on paper.
func benchFit(c *cli.Context, only []string, progress func(string)) (func(io.Writer), func(bench.Head) any, error) {
	o, err := torchOptions(c, only, progress)
	if err != nil {
		return nil, nil, err
	}
	r, err := bench.Fit(o)
	if err != nil {
		return nil, nil, asInput(err)
	}
	return r.Text, func(h bench.Head) any { return r.File(h) }, nil
}

// torchOptions are those of benches that run PyTorch.
func torchOptions(c *cli.Context, only []string, progress func(string)) (o bench.TorchOptions, err error) {
	if c.IsSet("threads") {
		return o, usage("bench %s has no --threads: steps run on one thread, whose CPU time counts", c.Args().First())
	}
	python := c.String("python")
	if python == "" {
		python = os.Getenv("MEMOPT_TORCH_PYTHON")
	}
	return bench.TorchOptions{Only: only, Quick: c.Bool("quick"), Python: benchPython(python), Progress: progress}, nil
}

// benchPython is the interpreter of the flag, else of the environment, else the first on the path.
func benchPython(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv("MEMOPT_PYTHON"); env != "" {
		return env
	}
	return "python3"
}
