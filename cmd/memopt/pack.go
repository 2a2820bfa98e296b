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
	Description: "memopt pack buffers.csv --capacity 1048576 -o placed.csv\n" +
		"With --format json the figures on standard error are JSON; the CSV stays on standard output.",
	Flags: common(
		&cli.Int64Flag{Name: "capacity", Usage: "`BYTES` fail if the arena is higher"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the CSV here instead of to standard output"},
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
		if err := destinations(c, "output"); err != nil {
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
		if asJSON {
			fmt.Fprintf(c.App.ErrWriter, "{\"height\": %d, \"bound\": %d, \"ms\": %.3f}\n", solution.Height, solution.Bound, float64(took.Microseconds())/1000)
		} else if !c.Bool("quiet") {
			fmt.Fprintf(c.App.ErrWriter, "height %d, no arena is lower than %d, by %s in %s\n", solution.Height, solution.Bound, solution.Strategy, took.Round(time.Microsecond))
		}
		return nil
	},
}
