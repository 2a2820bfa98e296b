package configs

import (
	"math"
	"slices"

	"github.com/tidwall/gjson"
)

// field is one setting: everything that is known of it.
type field struct {
	name, doc string
	takes     []gjson.Type
	want      string
	schema    map[string]any

	reset func(*Config)              // to the default
	parse func(*Config, value) error // sets it
	copy  func(to, from *Config)     // sets it as in another
	print func(*Config) string
}

// row makes a field of its kind, its place in Config and its default.
func row[T any](name string, at func(*Config) *T, k kind[T], def T, doc string) field {
	return field{
		name: name, doc: doc,
		takes: k.takes, want: k.want, schema: k.schema,
		reset: func(c *Config) { *at(c) = def },
		parse: func(c *Config, v value) error {
			got, err := k.parse(v)
			if err == nil {
				*at(c) = got
			}
			return err
		},
		copy:  func(to, from *Config) { *at(to) = *at(from) },
		print: func(c *Config) string { return k.print(*at(c)) },
	}
}

// The words of the choices.
var (
	strategies = []string{"auto", "keep-all", "recompute-cheap", "recompute-all", "greedy"}
	optimizes  = []string{"off", "clean", "fuse"}
	optimizers = []string{"sgd", "momentum", "adam", "adamw", "lamb", "adagrad"}
	devices    = []string{"auto", "cpu", "vulkan"}
	fastPaths  = []string{"cooperative-matrix", "buffer-addresses"}
	compats    = []string{"1.19"}
	lossies    = []string{"off", "bf16", "fp16", "fp8"}
	logLevels  = []string{"debug", "devinfo", "info", "warn", "error", "fatal"}
	logAliases = map[string]string{"trace": "debug", "verbose": "debug", "warning": "warn"}
)

// fields is every setting.
var fields = []field{
	row("preset", func(c *Config) *string { return &c.Preset }, choice(presetNames, nil), "",
		"Ready-made settings to start from; whatever else is set goes on top."),

	row("strategy", func(c *Config) *string { return &c.Strategy }, choice(strategies, nil), "auto",
		"How to decide what is computed again: nothing, what is cheap, everything that may be, by the simulated peak, or the planner's choice."),
	row("level", func(c *Config) *int { return &c.Level }, whole(0, 2), 0,
		"ONNX Runtime's level: 0 as requested in config, 1 all clusters of each transformer layer, 2 also with compromises."),
	row("config", func(c *Config) *[]Request { return &c.Requests }, clusters(), nil,
		"Clusters to compute again, as ONNX Runtime writes them: id:strategy:count."),
	row("budget", func(c *Config) *Budget { return &c.Budget }, size(), Budget{},
		"Limit on all memory of a step: 6GiB, or 60% of what it takes with everything kept."),
	row("activation_budget", func(c *Config) *Budget { return &c.ActivationBudget }, size(), Budget{},
		"Limit on the arena alone: activations, gradients in flight and workspace."),
	row("max_overhead", func(c *Config) *float64 { return &c.MaxOverhead }, share(), 0,
		"Limit on the extra computation, as a share of the step's: 10% or 0.1."),
	row("boundary", func(c *Config) *bool { return &c.Boundary }, onOff(), true,
		"Whether clusters end at the boundaries of transformer layers."),
	row("compat", func(c *Config) *string { return &c.Compat }, choice(compats, nil), "",
		"The ONNX Runtime release whose behaviour is followed to the letter, defects included."),
	row("dims", func(c *Config) *map[string]int64 { return &c.Dims }, sizes(), nil,
		"Sizes of the model's named dims."),

	row("device", func(c *Config) *string { return &c.Device }, deviceName(), "auto",
		"Where the step runs: vulkan:1 and vulkan:llvmpipe name one of several."),
	row("fast_paths", func(c *Config) *[]string { return &c.FastPaths }, someOf(fastPaths, "auto", "none"), []string{"auto"},
		"Ways to run some launches faster that a Vulkan device may offer, by name: all of the device's that are known to help, none, or those to take. Some sum in another order, which is then that of every run on this device: a value that is computed again has the bits that it had."),
	row("optimize", func(c *Config) *string { return &c.Optimize }, choice(optimizes, nil), "fuse",
		"What is done to a forward graph before anything else: nothing, a clean-up that keeps every bit, or fusions too."),
	row("shrink", func(c *Config) *string { return &c.Shrink }, switchOr("auto"), "auto",
		"Whether values are kept for the backward pass as less, where that is exact: bits for signs and masks, bytes for places in a pool's window. Auto does so where a budget or level 2 is asked for and it helps."),
	row("chunk_loss", func(c *Config) *string { return &c.ChunkLoss }, switchOr("auto"), "auto",
		"Whether a linear layer and the cross entropy behind it are computed some rows at a time, so that the scores of all rows are never there at once; they are computed again for the backward pass. The bits are the same. Auto does so where a budget is asked for and it costs less than other ways, or nothing else fits."),
	row("flash_attention", func(c *Config) *string { return &c.Flash }, switchOr("auto", "rows"), "auto",
		"Whether attention is computed so that the scores of all are never there at once and its probabilities are not kept; they are computed again for the backward pass. Rows does so for some queries at a time and all keys, and the bits are the same; on goes by tiles of both, which takes less room and rounds otherwise in the last digits. Auto takes rows where a budget is asked for and it costs less than other ways, or nothing else fits."),
	row("fuse_chains", func(c *Config) *string { return &c.FuseChains }, switchOr("auto"), "auto",
		"Whether elementwise operators that read the same, or what others of them make, run as one. Bytes and bits are the same. Auto does so on devices that run kernels."),
	row("lossy", func(c *Config) *string { return &c.Lossy }, choice(lossies, map[string]string{"f16": "fp16", "f8": "fp8"}), "off",
		"Keeps activations for the backward pass as 16-bit floats, or as 8-bit ones under a power of two for each 32: gradients are no longer exact. All of them, those that config names, or under a budget those that it takes. Off unless asked for; training tells by how much gradients differ."),
	row("loss", func(c *Config) *string { return &c.Loss }, name("the name of an output, or of a loss to add"), "",
		"The output that is minimised; not needed where only one is a scalar. A model that ends in scores or values is given a loss: cross-entropy, mse, l1, bce-with-logits or mean, on its only output or the one named, as in cross-entropy:logits; the input it adds is called labels or targets."),
	row("trainable", func(c *Config) *[]string { return &c.Trainable }, names("the name of a parameter or a pattern like encoder.*"), nil,
		"Which parameters are trained, by name or pattern; all of them where nothing is said."),
	row("optimizer", func(c *Config) *string { return &c.Optimizer }, choice(optimizers, nil), "adamw",
		"How parameters follow their gradients."),
	row("lr", func(c *Config) *float64 { return &c.LR }, real(positive), 1e-3,
		"Learning rate."),
	row("momentum", func(c *Config) *float64 { return &c.Momentum }, real(below1), 0.9,
		"Momentum of the optimizer of that name."),
	row("beta1", func(c *Config) *float64 { return &c.Beta1 }, real(below1), 0.9,
		"Adam, AdamW and LAMB: decay of the mean gradient."),
	row("beta2", func(c *Config) *float64 { return &c.Beta2 }, real(below1), 0.999,
		"Adam, AdamW and LAMB: decay of the mean squared gradient."),
	row("epsilon", func(c *Config) *float64 { return &c.Epsilon }, real(positive), 1e-8,
		"Adam, AdamW, LAMB and Adagrad: added to the root of the squared gradients."),
	row("weight_decay", func(c *Config) *float64 { return &c.WeightDecay }, real(atLeast0), 0.01,
		"Share of a parameter taken off each step, times the learning rate."),
	row("nesterov", func(c *Config) *bool { return &c.Nesterov }, onOff(), false,
		"Momentum: whether the step looks ahead, as Nesterov's does."),
	row("lr_decay", func(c *Config) *float64 { return &c.LRDecay }, real(atLeast0), 0,
		"Adagrad: the rate is divided by 1 + lr_decay times the updates that were done."),
	row("clip_norm", func(c *Config) *float64 { return &c.ClipNorm }, real(atLeast0), 0,
		"Largest norm of all gradients together; 0 for no clipping."),
	row("loss_scale", func(c *Config) *LossScale { return &c.LossScale }, lossScale(), LossScale{},
		"What the loss is multiplied by for the backward pass, for models of 16-bit floats: a number, or auto, which begins at 65536 and is halved when gradients overflow. Their update is left out."),
	row("loss_scale_window", func(c *Config) *int { return &c.ScaleWindow }, whole(1, math.MaxInt32), 2000,
		"Updates without an overflow after which an automatic loss scale doubles."),
	row("accumulate", func(c *Config) *int { return &c.Accumulate }, whole(1, math.MaxInt32), 1,
		"Micro-batches whose gradients are added up before a step."),
	row("steps", func(c *Config) *int { return &c.Steps }, whole(1, math.MaxInt32), 10,
		"Steps to train."),
	row("seed", func(c *Config) *uint64 { return &c.Seed }, seed(), 0,
		"Start of every random number: same seed, same run."),

	row("log", func(c *Config) *string { return &c.Log }, choice(logLevels, logAliases), "warn",
		"How much is said: ONNX Runtime's levels by their usual names."),
	row("cache", func(c *Config) *string { return &c.Cache }, name("a folder"), "",
		"Folder of plans already made."),
	row("save_onnx_path", func(c *Config) *string { return &c.SaveONNXPath }, name("a folder"), "",
		"Folder that the graphs before and after planning are written to."),
}

// fieldNames is the names of all settings, in the order of the table.
func fieldNames() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// find returns the field of a name.
func find(name string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// read checks a JSON value's type and parses it into c.
func (f field) read(c *Config, v value) error {
	if v.isJSON() && !slices.Contains(f.takes, v.json.Type) {
		return v.fail("%s instead of %s", typeName(v.json), f.want)
	}
	return f.parse(c, v)
}
