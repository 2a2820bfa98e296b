package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
)

var configCommand = &cli.Command{
	Name:      "config",
	Category:  "This machine",
	Usage:     "show the settings in force, and where each was given",
	ArgsUsage: " ",
	UsageText: "memopt config\n" +
		"memopt config --config settings.json\n" +
		"memopt config --schema > memopt.schema.json",
	Flags: settingFlags("config",
		&cli.BoolFlag{Name: "schema", Usage: "print the JSON Schema of configuration files instead"},
	),
	Action: func(c *cli.Context) error {
		asJSON, err := begin(c, "")
		if err != nil {
			return err
		}
		if c.Bool("schema") {
			_, err := c.App.Writer.Write(configs.Schema())
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
		if len(rows) == 0 {
			fmt.Fprintln(c.App.Writer, "every setting is at its default")
			return nil
		}
		table := [][]string{{"setting", "value", "from"}}
		for _, r := range rows {
			table = append(table, []string{r.Name, r.Value, r.Source})
		}
		report.Table(c.App.Writer, "=lnt", table)
		return nil
	},
}
