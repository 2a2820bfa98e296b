package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"memopt/configs"
)

var configCommand = &cli.Command{
	Name:      "config",
	Usage:     "the settings in force and where each came from; --schema prints the JSON Schema of configuration files",
	ArgsUsage: " ",
	Flags: common(
		&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema"},
		&cli.StringFlag{Name: "config", Usage: "JSON file to read"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		if c.Bool("schema") {
			_, err := c.App.Writer.Write(append(configs.Schema(), '\n'))
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		rows := nonDefaults(cfg)
		if asJSON {
			out := []map[string]string{}
			for _, r := range rows {
				out = append(out, map[string]string{"name": r.Name, "value": r.Value, "source": r.Source})
			}
			return printJSON(c.App.Writer, map[string]any{"format": "memopt.config/1", "settings": out})
		}
		t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%s\t%s\n", r.Name, r.Value, r.Source)
		}
		t.Flush()
		if len(rows) == 0 {
			fmt.Fprintln(c.App.Writer, "every setting is at its default")
		}
		return nil
	},
}
