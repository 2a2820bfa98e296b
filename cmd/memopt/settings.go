package main

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
)

// planFlags are the settings of a plan; each is also a field of configuration
// files, under the same name with underscores.
func planFlags(more ...cli.Flag) []cli.Flag {
	return common(append([]cli.Flag{
		setting("dims", "sizes of the model's dims: batch=8,seq=1024"),
		setting("budget", "limit for everything the step holds: 6GiB, 6GB, 60%"),
		setting("activation-budget", "limit for the arena alone"),
		setting("max-overhead", "lowest peak within this extra compute: 10%"),
		setting("strategy", "auto, keep-all, recompute-cheap, recompute-all or greedy"),
		setting("preset", "ready-made settings: none, selective, full or auto"),
		setting("level", "ONNX Runtime's level: 0, 1 or 2"),
		&cli.StringFlag{Name: "config", Usage: "JSON file: settings, or ONNX Runtime's array of clusters"},
		setting("loss", "the scalar to lower, if several outputs are scalars"),
		setting("trainable", "names or patterns of parameters to train"),
		setting("optimizer", "sgd, momentum, adam or adamw"),
		setting("clip-norm", "limit for the norm of all gradients together"),
		setting("accumulate", "micro-batches per update"),
		setting("device", "auto or cpu"),
	}, more...)...)
}

// setting is a flag that is a field of the configuration.
func setting(name, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Category: "settings"}
}

// settings merges flags, environment and --config by precedence.
func settings(c *cli.Context) (configs.Config, error) {
	var flags configs.Config
	for _, f := range c.Command.Flags {
		s, ok := f.(*cli.StringFlag)
		if !ok || s.Category != "settings" || !c.IsSet(s.Name) {
			continue
		}
		from := configs.Source{Origin: configs.OriginFlag, Name: "--" + s.Name}
		if err := flags.Set(strings.ReplaceAll(s.Name, "-", "_"), c.String(s.Name), from); err != nil {
			return flags, asInput(err)
		}
	}
	var file configs.Config
	if path := c.String("config"); path != "" {
		var err error
		if file, err = configs.ParseFile(path); err != nil {
			return flags, asInput(err)
		}
	}
	env, warnings, err := configs.FromEnv(os.LookupEnv)
	if err != nil {
		return flags, asInput(err)
	}
	warn(c, warnings...)
	return configs.Merge(flags, file, env), nil
}

// nonDefaults lists what was set and by whom.
func nonDefaults(cfg configs.Config) []report.Setting {
	var out []report.Setting
	for _, s := range cfg.NonDefaults() {
		out = append(out, report.Setting{Name: s.Name, Value: s.Value, Source: s.Source.String()})
	}
	return out
}
