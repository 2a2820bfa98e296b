package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/planner/pack"
)

var packCommand = &cli.Command{
	Name:      "pack",
	Usage:     "place buffers of a MiniMalloc CSV (id,lower,upper,size) in an arena; prints it with offsets",
	ArgsUsage: "PROBLEM.csv",
	Description: "memopt pack buffers.csv --capacity 1048576 -o placed.csv --svg placed.svg\n" +
		"Columns may stand in any order. Optional ones: alignment; fixed, the only offset that will do; inplace, the id of the\n" +
		"buffer that ends a moment after this one begins, whose bytes it may take over. Others are not looked at.\n" +
		"With --format json the figures on standard error are JSON; the CSV stays on standard output.",
	Flags: common(
		&cli.Int64Flag{Name: "capacity", Usage: "`BYTES` fail if the arena is higher"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the CSV here instead of to standard output"},
		&cli.StringFlag{Name: "svg", Usage: "`FILE` draw the arena over time"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PROBLEM.csv")
		if err != nil {
			return err
		}
		path := c.Args().First()
		if c.IsSet("capacity") && c.Int64("capacity") < 1 {
			return usage("--capacity is a number of bytes from 1 up, not %d", c.Int64("capacity"))
		}
		if err := destinations(c, "output", "svg"); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return asInput(err)
		}
		defer f.Close()
		ids, problem, err := pack.ReadCSV(f)
		if err != nil {
			return usage("%s: %s", path, err)
		}
		if err := pack.Valid(problem); err != nil {
			return usage("%s: %s (buffers count from 0, in the order of their lines)", path, err)
		}
		problem.Capacity = c.Int64("capacity")
		begin := time.Now()
		done := busy(c, "packing")
		solution, err := pack.Solve(problem)
		done()
		if err != nil {
			return cannot{err.Error()}
		}
		took := time.Since(begin)
		var out bytes.Buffer
		if err := pack.WriteCSV(&out, ids, problem, solution); err != nil {
			return asInput(err)
		}
		if to := c.String("output"); to != "" {
			err = writeFile(to, out.Bytes())
		} else {
			_, err = c.App.Writer.Write(out.Bytes())
		}
		if err != nil {
			return asInput(err)
		}
		if to := c.String("svg"); to != "" {
			out.Reset()
			if err := pack.WriteSVG(&out, ids, problem, solution); err != nil {
				return asInput(err)
			}
			if err := writeFile(to, out.Bytes()); err != nil {
				return asInput(err)
			}
		}
		gap := 0.0
		if solution.Bound > 0 {
			gap = float64(solution.Height-solution.Bound) / float64(solution.Bound)
		}
		if asJSON {
			fmt.Fprintf(c.App.ErrWriter, "{\"height\": %d, \"bound\": %d, \"gap\": %.6f, \"buffers\": %d, \"strategy\": %q, \"ms\": %.3f}\n",
				solution.Height, solution.Bound, gap, len(ids), solution.Strategy, float64(took.Microseconds())/1000)
		} else if !c.Bool("quiet") {
			fmt.Fprintf(c.App.ErrWriter, "height %d, no arena is lower than %d (gap %.3f %%), by %s in %s\n",
				solution.Height, solution.Bound, 100*gap, solution.Strategy, took.Round(time.Microsecond))
		}
		return nil
	},
}
