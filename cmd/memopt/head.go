package main

import (
	"github.com/urfave/cli/v2"

	"memopt/configs"
)

// onModel makes the action of a command that takes a model and settings. A request that cannot be
// met is reported with what would fit.
func onModel(do func(c *cli.Context, cfg configs.Config, asJSON bool) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := begin(c, "MODEL")
		if err != nil {
			return err
		}
		cfg, err := settings(c)
		if err != nil {
			return err
		}
		return refused(c, cfg, do(c, cfg, asJSON))
	}
}

// onStep makes the action of a command that plans a model's step; files lists the flags that name
// files to write.
func onStep(do func(c *cli.Context, j job, asJSON bool) error, files ...string) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := begin(c, "MODEL")
		if err != nil {
			return err
		}
		j, err := newJob(c, files...)
		if err != nil {
			return err
		}
		return refused(c, j.cfg, do(c, j, asJSON))
	}
}

// written is the file of -o, which a command writes its model to.
func written(c *cli.Context, cfg configs.Config) (string, error) {
	if c.String("output") == "" {
		return "", usage("memopt %s needs -o FILE, to write the model to", c.Command.Name)
	}
	to, err := destinations(c, cfg, "output")
	if err != nil {
		return "", err
	}
	return to[0].path, nil
}
