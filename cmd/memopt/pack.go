package main

import (
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/memopt"
	"memopt/planner/pack"
)

var packCommand = &cli.Command{
	Name:      "pack",
	Usage:     "place buffers of a MiniMalloc CSV (id,lower,upper,size) in an arena; prints it with offsets",
	ArgsUsage: "PROBLEM.csv",
	Flags: common(
		&cli.Int64Flag{Name: "capacity", Usage: "fail if the arena is higher than `N`"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the CSV here"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "PROBLEM.csv")
		if err != nil {
			return err
		}
		f, err := os.Open(c.Args().First())
		if err != nil {
			return asInput(err)
		}
		defer f.Close()
		ids, problem, err := pack.ReadCSV(f)
		if err != nil {
			return asInput(err)
		}
		problem.Capacity = c.Int64("capacity")
		begin := time.Now()
		solution, err := pack.Solve(problem)
		if err != nil {
			return cli.Exit(err.Error(), memopt.ExitCannot)
		}
		took := time.Since(begin)
		to := c.App.Writer
		if path := c.String("output"); path != "" {
			file, err := os.Create(path)
			if err != nil {
				return asInput(err)
			}
			defer file.Close()
			to = file
		}
		if err := pack.WriteCSV(to, ids, problem, solution); err != nil {
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
