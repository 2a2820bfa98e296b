package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/internal/visible"
	"memopt/memopt/forward"
	"memopt/memopt/phases"
	"memopt/memopt/report"
	"memopt/memopt/session"
)

var runCommand = &cli.Command{
	Name:      "run",
	Category:  "Run",
	Before:    gcForService,
	Usage:     "run a forward graph; show its results, time, and promised and measured memory",
	ArgsUsage: "MODEL",
	UsageText: "memopt run gpt.onnx --data gpt.npz --dims batch=4\n" +
		"memopt run gpt.onnx --data gpt.npz --fetch logits -o out.npz\n" +
		"memopt run gpt.onnx --dims batch=8,seq=64 --repeat 100 --mem-limit 64MiB",
	Description: "Arrays of the data are the inputs, whole or as many rows as --dims says. Weights stay in the model's file where they lie aligned there; all values of a run lie in one block, planned for its shapes.",
	Flags: settingFlags("run",
		&cli.StringFlag{Name: "data", Usage: "`FILE` npz with an array for each input"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the results (npz)"},
		&cli.StringFlag{Name: "fetch", Usage: "`NAMES` outputs to compute, instead of all"},
		&cli.StringFlag{Name: "bind", Usage: "`HOW` inputs and outputs are bound: copy (each run; the default), import (the device uses the host's memory where it is) or device (buffers of the device)"},
		&cli.StringFlag{Name: "beside", Usage: "`MODELS` to run in turn with it, on made-up numbers: they share an arena (on the processor) and equal weights"},
		&cli.BoolFlag{Name: "shrink", Usage: "give idle memory back at the end, and tell how many bytes that is"},
		phasesFlag(),
		htmlFlag("write a page that stands alone: promised beside measured, and memory by phase"),
		&cli.IntFlag{Name: "repeat", Value: 1, Usage: "`N` run so often, and tell the median of the times (default 1)"},
	),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		if c.Int("repeat") < 1 {
			return usage("--repeat is at least 1, not %d", c.Int("repeat"))
		}
		if how := c.String("bind"); how != "" && !slices.Contains(forward.Binds(), how) {
			return usage("--bind is %s, not %q", strings.Join(forward.Binds(), ", "), how)
		}
		if _, err := destinations(c, cfg, "output", "html"); err != nil {
			return err
		}
		if to := cfg.OptimizedModelPath; to != "" {
			if err := writable([]destination{{"--optimized-model-filepath", to}}, append(sources(c, nil), cfg.Files()...)); err != nil {
				return err
			}
		}
		return runForward(c, cfg, asJSON)
	}),
}

// names splits a comma-separated list, without duplicates.
func names(list string) (all []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func runForward(c *cli.Context, cfg configs.Config, asJSON bool) error {
	path := c.Args().First()
	if path == "" {
		return usage("MODEL is empty; give a path")
	}
	arena := ""
	if c.String("beside") != "" {
		arena = "run"
	}
	var record *phases.Record
	if c.Bool("phases") || c.String("html") != "" {
		var err error
		if record, err = phases.NewForward(cfg.Device); err != nil {
			return err
		}
	}
	done := busy(c, "reading "+filepath.Base(path))
	s, err := forward.OpenRecorded(c.Context, record, session.Model{Path: path, Arena: arena}, cfg, c.String("data"))
	done()
	if err != nil {
		return err
	}
	defer s.Close()
	var beside []*session.Session
	for _, other := range names(c.String("beside")) {
		done := busy(c, "reading "+filepath.Base(other))
		o, err := forward.OpenRecorded(c.Context, record, session.Model{Path: other, Arena: arena}, cfg, "")
		done()
		if err != nil {
			return refused(c, cfg, err)
		}
		defer o.Close()
		beside = append(beside, o)
	}
	stopper := newStopper(c)
	defer stopper.release()
	status := newStatus(c)
	r, err := forward.Run(c.Context, s, cfg, forward.Running{Data: c.String("data"), Fetch: names(c.String("fetch")), Repeat: c.Int("repeat"), Bind: c.String("bind"), Beside: beside, Shrink: c.Bool("shrink"), Phases: record, Stop: stopper.stopped,
		Progress: func(run, runs int, _ time.Duration) {
			if run < runs {
				status.show("%s", bar(run, runs, time.Since(status.since)))
			}
		}})
	status.clear()
	if err != nil {
		return err
	}
	warn(c, r.Warnings...)
	if to := c.String("output"); to != "" {
		record.Writing()
		set := &tensorfile.Set{Tensors: map[string]*graph.Tensor{}}
		for _, out := range r.Outputs {
			set.Names = append(set.Names, out.Name)
			set.Tensors[out.Name] = out.Tensor
		}
		if err := tensorfile.WriteNPZ(to, set); err != nil {
			return asInput(err)
		}
	}
	of := summaries(r.Outputs)
	for _, o := range append(beside, s) { // their results are not used any more
		if err := o.Close(); err != nil {
			return err
		}
	}
	table := record.Close(r.Device)
	if to := c.String("html"); to != "" {
		var page bytes.Buffer
		if err := report.RunsHTML(&page, filepath.Base(path), ranText(path, r), ranLines(r), table.Rows, table.Rule); err != nil {
			return err
		}
		if err := writeText(c.Context, to, page.Bytes()); err != nil {
			return err
		}
		if !c.Bool("phases") {
			table = nil
		}
	}
	a := ranAnswer(path, c.String("bind"), c.Bool("shrink"), r, of, table)
	if err := a.print(c, asJSON); err != nil {
		return err
	}
	return r.Stopped
}

// median of times.
func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// outputFile is the summary of an output.
type outputFile struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
	Min   *real  `json:"min"` // null if there are no numbers
	Max   *real  `json:"max"`
	Mean  *real  `json:"mean"`
}

func summaries(outputs []session.Output) (all []outputFile) {
	for _, out := range outputs {
		o := outputFile{Name: out.Name, Type: out.Type.String(), Shape: append([]int{}, out.Shape...), Bytes: len(out.Bytes)}
		if low, high, mean, any := summary(out.Tensor); any {
			o.Min, o.Max, o.Mean = newReal(low), newReal(high), newReal(mean)
		}
		all = append(all, o)
	}
	return all
}

// ranText says where the program ran, and for how long.
func ranText(path string, r *forward.Ran) string {
	times := fmt.Sprintf("a run takes %s ms", millis(median(r.Times)))
	if len(r.Times) > 1 {
		times = fmt.Sprintf("%d runs, the first %s ms with planning, then %s ms (median)", len(r.Times), millis(r.Times[0]), millis(median(r.Times[1:])))
	}
	return fmt.Sprintf("%s on %s: %s", filepath.Base(path), r.Device, times)
}

// ranLines are the promised and the measured memory of runs.
func ranLines(r *forward.Ran) []report.Line {
	p, m := r.Promised, r.Measured
	lines := []report.Line{
		{Name: "weights", Promised: p.Weights, Measured: m.Weights}, {Name: "values", Promised: p.Values, Measured: m.Values},
		{Name: "copies of inputs", Promised: p.Inputs, Measured: m.Inputs}, {Name: "results", Promised: p.Results, Measured: m.Results},
		{Name: "total", Promised: p.Total, Measured: m.Total},
	}
	lines = loading(lines, r.Stats.Load)
	if a := r.Anonymous; a != nil {
		lines = append(lines, report.Anonymous(a.Promised, a.Measured))
	}
	return lines
}

// ranAnswer is the answer of the command; table is nil if not requested.
func ranAnswer(path, bind string, shrunk bool, r *forward.Ran, outputs []outputFile, table *phases.Table) answer {
	stats := r.Stats
	type anonymous struct {
		Promised int64 `json:"promised"`
		Measured int64 `json:"measured"`
	}
	file := struct {
		Format   string           `json:"format"`
		Model    string           `json:"model"`
		Device   string           `json:"device"`
		Outputs  []outputFile     `json:"outputs"`
		Runs     int              `json:"runs"`
		FirstMS  float64          `json:"first_ms"` // includes planning
		MedianMS float64          `json:"median_ms"`
		Promised session.Memory   `json:"promised"`
		Measured session.Memory   `json:"measured"`
		OS       *anonymous       `json:"anonymous"` // null if the system does not report it
		Bind     string           `json:"bind"`      // how inputs and outputs are bound
		Returned int64            `json:"returned"`  // bytes released by --shrink
		Beside   []forward.Beside `json:"beside"`
		Run      any              `json:"run"`
		Stats    session.Stats    `json:"stats"`
		phasesFile
		Warnings []string `json:"warnings"`
	}{Format: "memopt.run/1", Model: path, Device: r.Device, Runs: len(r.Times), FirstMS: ms(r.Times[0]), MedianMS: ms(median(r.Times)),
		Outputs: outputs, phasesFile: phasesJSON(table), Promised: r.Promised, Measured: r.Measured, Bind: cmp.Or(bind, forward.Binds()[0]), Returned: r.Shrunk, Beside: append([]forward.Beside{}, r.Beside...), Run: runJSON(r.Result), Stats: stats, Warnings: append([]string{}, r.Warnings...)}
	if r.Anonymous != nil {
		file.OS = &anonymous{r.Anonymous.Promised, r.Anonymous.Measured}
	}
	rows := [][]string{{"output", "type", "shape", "min", "max", "mean"}}
	for _, o := range outputs {
		row := []string{o.Name, o.Type, fmt.Sprint(o.Shape)}
		for _, x := range []*real{o.Min, o.Max, o.Mean} {
			text := ""
			if x != nil {
				text = fmt.Sprintf("%.6g", float64(*x))
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return answer{json: file, text: func(w io.Writer) {
		report.Table(w, "=lllrrr", rows)
		visible.Fprintf(w, "\n%s\n\n", ranText(path, r))
		report.Measured(w, ranLines(r))
		n := report.Thousands
		a, o := stats.Arena, stats.Weights
		report.Text(w, 2, "\nweights: %s bytes mapped, %s copied, of them %s as they do not lie aligned, %s folded; %s shared with other sessions\n",
			n(o.Mapped), n(o.Copied), n(o.Unaligned), n(o.Folded), n(o.Shared))
		report.Text(w, 2, "arena: %s bytes taken in %d extensions, %s in use at most, %s lent beside a plan; %s bytes copied in and %s out per run\n",
			n(a.MaxTotalAllocated), a.NumArenaExtensions, n(a.MaxInUse), n(stats.Patterns.Fallback), n(r.CopiedIn), n(r.CopiedOut))
		if n := stats.Owners["buffers"]; n > 0 {
			what := map[string]string{"import": "of the host's memory, which the device uses where it is", "device": "of the device"}[bind]
			report.Text(w, 2, "bound: inputs and outputs lie in buffers of %s bytes %s\n", report.Thousands(n), what)
		}
		for _, b := range r.Beside {
			report.Text(w, 2, "beside: %s, %s ms, %s bytes of its weights shared\n", filepath.Base(b.Model), millis(b.Took), n(b.Stats.Weights.Shared))
		}
		if shrunk {
			report.Text(w, 2, "shrunk: %s bytes were given back\n", n(r.Shrunk))
		}
		for _, why := range r.Copies {
			report.Text(w, 2, "%s\n", why)
		}
		if stats.Limit > 0 {
			report.Text(w, 2, "limit: %s bytes, of which %s were held at most\n", n(stats.Limit), n(stats.HeldMost))
		}
		phasesText(w, table)
	}}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// real is a float64 that may be infinite or NaN, which JSON cannot represent.
type real float64

func newReal(x float64) *real { r := real(x); return &r }

// MarshalJSON writes infinities and NaN as text.
func (r real) MarshalJSON() ([]byte, error) {
	if x := float64(r); math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Appendf(nil, "%q", fmt.Sprint(x)), nil
	}
	return fmt.Appendf(nil, "%g", float64(r)), nil
}

// summary is the minimum, maximum and mean of a tensor.
func summary(x *graph.Tensor) (low, high, mean float64, any bool) {
	low, high = math.Inf(1), math.Inf(-1)
	sum := 0.0
	for i := range x.Len() {
		v := x.Float(i)
		low, high, sum = math.Min(low, v), math.Max(high, v), sum+v
	}
	return low, high, sum / float64(x.Len()), x.Len() > 0
}
