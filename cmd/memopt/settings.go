package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt"
	"memopt/memopt/report"
)

// planFlags are the settings of a plan; each is also a field of configuration
// files, under the same name with underscores.
func planFlags(more ...cli.Flag) []cli.Flag {
	return common(append([]cli.Flag{
		setting("dims", "`SIZES` of the model's dims: batch=8,seq=1024"),
		setting("budget", "`SIZE` limit for everything the step holds: 6GiB, 6GB, 60%"),
		setting("activation-budget", "`SIZE` limit for the arena alone"),
		setting("max-overhead", "`SHARE` the lowest peak for at most this much extra compute: 10%"),
		setting("strategy", "`NAME` auto (default), keep-all, recompute-cheap, recompute-all or greedy"),
		setting("preset", "`NAME` ready-made settings: none, selective, full or auto"),
		setting("level", "`N` ONNX Runtime's level: 0, 1 or 2"),
		setting("boundary", "`ON|OFF` whether what layers keep for each other is kept (default on)"),
		setting("compat", "`RELEASE` clusters and choices of ONNX Runtime 1.19 to the letter"),
		configFlag(),
		&cli.StringFlag{Name: "profile", Usage: "`FILE` count time as train --record measured it, instead of flops and bytes"},
		setting("optimize", "`NAME` what is done to a forward graph first: off, clean or fuse (default)"),
		setting("shrink", "`on|off|auto` keep signs, masks and places of values instead of them, where that is exact (default auto: under a budget or at level 2, if it helps)"),
		setting("chunk-loss", "`on|off|auto` compute the scores of a cross entropy some rows at a time, twice, instead of keeping them (default auto: under a budget, if it helps)"),
		setting("flash-attention", "`on|rows|off|auto` compute attention by tiles, or some queries at a time with the same bits, its scores again for the gradients, instead of keeping probabilities (default auto: rows under a budget, if it helps)"),
		setting("fuse-chains", "`on|off|auto` run elementwise operators that follow one another as one (default auto: where kernels run)"),
		setting("lossy", "`TYPE` keep activations as bf16, fp16 or fp8 for the backward pass: gradients are no longer exact (default off)"),
		setting("loss", "`NAME` the scalar to lower, if several outputs are scalars; or a loss to add: cross-entropy, mse, l1, bce-with-logits, mean, or cross-entropy:OUTPUT"),
		setting("trainable", "`NAMES` the parameters to train, patterns like h.0.* too (default all)"),
		setting("optimizer", "`NAME` sgd, momentum, adam, adamw (default), lamb or adagrad"),
		setting("clip-norm", "`X` largest norm of all gradients together"),
		setting("loss-scale", "`auto|N` what the loss is multiplied by for the backward pass (default off)"),
		setting("loss-scale-window", "`N` updates without an overflow before an automatic loss scale doubles (default 2000)"),
		setting("accumulate", "`N` micro-batches for each update (default 1)"),
		setting("device", "`NAME` auto (default), cpu, vulkan, or which: vulkan:1, vulkan:llvmpipe"),
		fastPathsFlag(),
	}, more...)...)
}

// fastPathsFlag is which ways of a Vulkan device are taken.
func fastPathsFlag() cli.Flag {
	return setting("fast-paths", "`auto|none|LIST` ways of a Vulkan device to run launches faster; memopt devices lists them (default auto)")
}

// configFlag is where settings are read from besides.
func configFlag() cli.Flag {
	return &cli.StringFlag{Name: "config", Usage: "`FILE` JSON settings, or ONNX Runtime's array of clusters; or clusters themselves: BiasGelu+:1:-1,Dropout+:1:{0-3,7}"}
}

// settingsTitle stands above the flags of settings in help texts, and marks them.
const settingsTitle = "Settings (a --config file takes them too, with _ for -)"

// setting is a flag that is a field of the configuration.
func setting(name, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Category: settingsTitle}
}

// settings merges flags, environment and --config by precedence.
func settings(c *cli.Context) (configs.Config, error) {
	var flags configs.Config
	for _, f := range c.Command.Flags {
		s, ok := f.(*cli.StringFlag)
		if !ok || s.Category != settingsTitle || !c.IsSet(s.Name) {
			continue
		}
		from := configs.Source{Origin: configs.OriginFlag, Name: "--" + s.Name}
		if err := flags.Set(strings.ReplaceAll(s.Name, "-", "_"), c.String(s.Name), from); err != nil {
			return flags, asInput(err)
		}
	}
	if level := c.String("log-level"); level != "" {
		if err := flags.Set("log", level, configs.Source{Origin: configs.OriginFlag, Name: "--log-level"}); err != nil {
			return flags, asInput(err)
		}
	}
	var file configs.Config
	if given := c.String("config"); given != "" {
		var err error
		if file, _, err = configs.ParseConfig(given, "--config"); err != nil {
			return flags, asInput(err)
		}
	}
	env, warnings, err := configs.FromEnv(os.LookupEnv)
	if err != nil {
		return flags, asInput(err)
	}
	warn(c, warnings...)
	warn(c, configs.StrayEnv(os.Environ())...)
	cfg := configs.Merge(flags, file, env)
	for _, s := range cfg.NonDefaults() {
		if idle[s.Name] {
			warn(c, fmt.Sprintf("%s: %s is read, but nothing in this version heeds it", s.Source, s.Name))
		}
	}
	return cfg, nil
}

// idle are settings that files may hold for other versions.
var idle = map[string]bool{"cache": true}

// priced is nonDefaults with what time is counted in.
func priced(c *cli.Context, m *memopt.Model) []report.Setting {
	out := nonDefaults(m.Config)
	if m.Profiled != "" {
		out = append(out, report.Setting{Name: "time", Value: "as measured on " + m.Profiled, Source: "--profile " + c.String("profile")})
	}
	return out
}

// nonDefaults lists what was set and by whom.
func nonDefaults(cfg configs.Config) []report.Setting {
	var out []report.Setting
	for _, s := range cfg.NonDefaults() {
		out = append(out, report.Setting{Name: s.Name, Value: s.Value, Source: s.Source.String()})
	}
	return out
}
