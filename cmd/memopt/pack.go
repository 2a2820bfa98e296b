package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/internal/visible"
	"memopt/internal/whole"
	"memopt/planner/pack"
)

var packCommand = &cli.Command{
	Name:      "pack",
	Category:  "Plan",
	Usage:     "place the buffers of a MiniMalloc CSV (id,lower,upper,size) in an arena",
	ArgsUsage: "PROBLEM.csv",
	UsageText: "memopt pack buffers.csv --capacity 1048576 -o placed.csv --svg placed.svg",
	Description: "Columns may be in any order; times are integers, such as nanoseconds of a trace. An optional column is " +
		"alignment; others are ignored.\n" +
		"With --format json the figures on standard error are JSON; the CSV stays on standard output.",
	Flags: common(
		&cli.StringFlag{Name: "capacity", Usage: "`SIZE` fail if the arena is higher: 1048576 or 1MiB"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the CSV here instead of to standard output"},
		&cli.StringFlag{Name: "svg", Usage: "`FILE` draw the arena over time"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PROBLEM.csv")
		if err != nil {
			return err
		}
		path := c.Args().First()
		capacity, err := capacity(c)
		if err != nil {
			return err
		}
		if _, err := destinations(c, configs.Config{}, "output", "svg"); err != nil {
			return err
		}
		data, err := whole.Read(path, "a problem", pack.MostCSV)
		if err != nil {
			return usage("%s: %s", path, err)
		}
		problem, err := pack.ReadCSV(bytes.NewReader(data))
		if err != nil {
			return usage("%s: %s", path, err)
		}
		if err := pack.Valid(problem); err != nil {
			return usage("%s: %s", path, err)
		}
		problem.Capacity = capacity
		begin := time.Now()
		done := busy(c, "packing")
		solution, err := pack.Solve(problem, pack.Effort{})
		done()
		if err != nil {
			return cannot{err.Error()}
		}
		took := time.Since(begin)
		var out bytes.Buffer
		to := c.String("output")
		if to == "" {
			for i, name := range problem.Names {
				problem.Names[i] = visible.Line(name)
			}
		}
		if err := pack.WriteCSV(&out, problem, solution); err != nil {
			return asInput(err)
		}
		if to != "" {
			err = writeFile(c.Context, to, out.Bytes())
		} else {
			_, err = c.App.Writer.Write(out.Bytes())
		}
		if err != nil {
			return asInput(err)
		}
		if to := c.String("svg"); to != "" {
			out.Reset()
			if err := pack.WriteSVG(&out, problem, solution); err != nil {
				return asInput(err)
			}
			if err := writeText(c.Context, to, out.Bytes()); err != nil {
				return asInput(err)
			}
		}
		gap := 0.0
		if solution.Bound > 0 {
			gap = float64(solution.Height-solution.Bound) / float64(solution.Bound)
		}
		if asJSON {
			fmt.Fprintf(c.App.ErrWriter, "{\"height\": %d, \"bound\": %d, \"gap\": %.6f, \"buffers\": %d, \"strategy\": %q, \"ms\": %.3f}\n",
				solution.Height, solution.Bound, gap, len(problem.Buffers), solution.By, float64(took.Microseconds())/1000)
		} else if !c.Bool("quiet") {
			fmt.Fprintf(c.App.ErrWriter, "height %d, no arena is lower than %d (gap %.3f %%), by %s in %s\n",
				solution.Height, solution.Bound, 100*gap, solution.By, took.Round(time.Microsecond))
		}
		return nil
	},
}

// capacity is the arena's limit in bytes, 0 for none.
func capacity(c *cli.Context) (int64, error) {
	if !c.IsSet("capacity") {
		return 0, nil
	}
	text := c.String("capacity")
	size, err := configs.ParseBudget(text)
	if err != nil || size.Bytes == 0 {
		return 0, usage("--capacity %.40q is not a number of bytes from 1 up: write 1048576 or 1MiB", text)
	}
	return size.Bytes, nil
}
