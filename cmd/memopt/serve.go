package main

import (
	"github.com/urfave/cli/v2"

	"memopt/memopt/machine"
	"memopt/plugin"
)

var serveCommand = &cli.Command{
	Name:      "serve",
	Category:  "Service and shell",
	Before:    gcForService,
	Usage:     "run the service of the Python package, which starts it automatically",
	ArgsUsage: " ",
	UsageText: "memopt serve",
	Flags: settingFlags("serve",
		&cli.BoolFlag{Name: "gencert", Usage: "print a client certificate and its key, and exit", Hidden: true},
	),
	Action: func(c *cli.Context) error {
		if _, err := begin(c, ""); err != nil {
			return err
		}
		if c.Bool("gencert") {
			return plugin.WriteClientCert(c.App.Writer)
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		machine.Limit(cfg.ServiceBudget)
		ending.leave()
		return plugin.Serve(front{})
	},
}
