package main

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/memopt/bench"
)

var benchCommand = &cli.Command{
	Name:      "bench",
	Usage:     "our figures beside a peer's or a baseline's, measured in one run",
	ArgsUsage: "WHAT",
	Description: "memopt bench cpu --quick\n" +
		"memopt bench cpu --only matmul,mlp --python .venv/bin/python\n" +
		"memopt bench vulkan --device vulkan:llvmpipe --only steps,budgets\n" +
		benchList(),
	Flags: common(
		&cli.StringFlag{Name: "only", Usage: "`GROUPS` only these, such as matmul,mlp"},
		&cli.StringFlag{Name: "with", Usage: "`FILES` planner: joint graphs and MiniMalloc CSVs to plan and pack too"},
		&cli.BoolFlag{Name: "quick", Usage: "a few short rounds: rough figures in seconds"},
		&cli.StringFlag{Name: "device", Usage: "`NAME` vulkan: vulkan:1 or vulkan:PART-OF-NAME (default the best)"},
		&cli.IntFlag{Name: "threads", Usage: "`N` this number of threads only (default 1 and all cores)"},
		&cli.StringFlag{Name: "python", Usage: "`PATH` of a Python that has the peers (default MEMOPT_PYTHON, else python3)"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "WHAT")
		if err != nil {
			return err
		}
		if c.Args().First() == "planner" {
			return benchPlanner(c, asJSON)
		}
		if c.Args().First() == "vulkan" {
			return benchVulkan(c, asJSON)
		}
		b, err := bench.Find(c.Args().First())
		if err != nil {
			return asInput(err)
		}
		o := bench.Options{Quick: c.Bool("quick"), Python: benchPython(c.String("python"))}
		if c.IsSet("only") {
			o.Only = strings.Split(c.String("only"), ",")
		}
		if n := c.Int("threads"); n != 0 {
			if n < 1 || n > 1024 {
				return usage("--threads is a number from 1 to 1024, not %d", n)
			}
			o.Threads = []int{n}
		}
		s := newStatus(c)
		o.Progress = func(what string) { s.show("%s", what) }
		r, err := b.Run(o)
		s.clear()
		if err != nil {
			return asInput(err)
		}
		if asJSON {
			return printJSON(c.App.Writer, r.File())
		}
		r.Text(c.App.Writer)
		return nil
	},
}

// benchList is what can be measured, for the help.
func benchList() string {
	var s strings.Builder
	for _, b := range bench.Benches {
		s.WriteString("\n" + b.Name + ": " + b.Doc + "; groups " + strings.Join(b.Groups(), ", "))
	}
	s.WriteString("\nplanner: " + bench.PlannerDoc + "\nvulkan: " + bench.VulkanDoc)
	return s.String()
}

// benchPlanner runs the planner's bench, whose tables are of another kind.
func benchPlanner(c *cli.Context, asJSON bool) error {
	o := bench.PlannerOptions{Quick: c.Bool("quick")}
	if c.IsSet("only") {
		o.Only = strings.Split(c.String("only"), ",")
	}
	if c.IsSet("with") {
		o.Files = strings.Split(c.String("with"), ",")
	}
	s := newStatus(c)
	o.Progress = func(what string) { s.show("%s", what) }
	r, err := bench.Planner(o)
	s.clear()
	if err != nil {
		return asInput(err)
	}
	if asJSON {
		return printJSON(c.App.Writer, map[string]any{"format": "memopt.bench/1", "bench": "planner", "planner": r})
	}
	r.Text(c.App.Writer)
	return nil
}

// benchVulkan runs Vulkan's bench, on one device.
func benchVulkan(c *cli.Context, asJSON bool) error {
	kind, which, _ := strings.Cut(c.String("device"), ":")
	if c.IsSet("device") && kind != "vulkan" {
		return usage("--device of bench vulkan is vulkan, vulkan:N or vulkan:PART-OF-NAME, not %q", c.String("device"))
	}
	if c.IsSet("threads") {
		return usage("bench vulkan has no --threads: LP_NUM_THREADS sets how many threads lavapipe has")
	}
	o := bench.VulkanOptions{Device: which, Quick: c.Bool("quick"), Python: benchPython(c.String("python"))}
	if c.IsSet("only") {
		o.Only = strings.Split(c.String("only"), ",")
	}
	s := newStatus(c)
	o.Progress = func(what string) { s.show("%s", what) }
	r, err := bench.Vulkan(o)
	s.clear()
	if err != nil {
		return asInput(err)
	}
	if asJSON {
		return printJSON(c.App.Writer, r.File())
	}
	r.Text(c.App.Writer)
	return nil
}

// benchPython is the flag's, else the environment's, else the first on the path.
func benchPython(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv("MEMOPT_PYTHON"); env != "" {
		return env
	}
	return "python3"
}
