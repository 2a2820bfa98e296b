package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
	"memopt/memopt/exit"
)

// fitFields are the fields of a request, by flag: one row each.
var fitFields = []cli.Flag{
	&cli.StringFlag{Name: "budget", Usage: "`SIZE` most memory of one device: 24GiB, or a share of that of --for (default all of it)"},
	&cli.StringFlag{Name: "for", Usage: "`DEVICE` device to fit, and whose profile prices time: h100, a100, 4090, torch-core … (memopt profile --list)"},
	&cli.StringFlag{Name: "batch", Usage: "`N` rows of a step on one rank (default 1)"},
	&cli.StringFlag{Name: "seq", Usage: "`N` tokens a row (default what the model takes, 2048 at most)"},
	&cli.StringFlag{Name: "lengths", Usage: "`FILE` of rows' tokens, one a line, or tokens and rows: the worst batch is the step"},
	&cli.StringFlag{Name: "dtype", Usage: "`TYPE` of parameters: float32, bfloat16, float16, float64 (default the config's)"},
	&cli.StringFlag{Name: "autocast", Usage: "`TYPE` a step calculates in, where it is another"},
	&cli.StringFlag{Name: "param-dtype", Usage: "`TYPE` of the parameters that FSDP2 gathers (default that of the shards)"},
	&cli.StringFlag{Name: "reduce-dtype", Usage: "`TYPE` in which FSDP2 reduces gradients, with --param-dtype (default float32)"},
	&cli.StringFlag{Name: "optimizer", Usage: "`NAME` adamw, adamw-fused, adamw8bit, adafactor, lion, sgd, momentum or none (default adamw)"},
	&cli.StringFlag{Name: "lora", Usage: "`RANK` of adapters, which alone are trained"},
	&cli.StringFlag{Name: "accumulate", Usage: "`N` forward and backward passes a step"},
	&cli.StringFlag{Name: "ranks", Usage: "`N` devices that train together (default 1)"},
	&cli.StringFlag{Name: "shard", Usage: "`HOW` ranks divide the model: ddp, zero1, zero2 or fsdp2 (default fsdp2)"},
	&cli.StringFlag{Name: "tensor", Usage: "`N` ranks that divide heads, widths and words (default 1)"},
	&cli.StringFlag{Name: "pipeline", Usage: "`N` ranks of a pipeline, which divide the layers (default 1)"},
	&cli.StringFlag{Name: "expert", Usage: "`N` data-parallel ranks that divide the experts of each layer (default 1)"},
	&cli.StringFlag{Name: "imbalance", Usage: "`N` tokens of the busiest rank's experts over the average, such as 1.2 (default 1)"},
	&cli.StringFlag{Name: "schedule", Usage: "`NAME` of the pipeline's schedule: 1f1b, gpipe, interleaved, zb-h1 or zbv, or PyTorch's name (default 1f1b)"},
	&cli.StringFlag{Name: "virtual", Usage: "`N` stages on each rank of a pipeline (default 1, or 2 for interleaved and zbv)"},
	&cli.StringFlag{Name: "microbatches", Usage: "`N` of a pipeline's step, of --batch rows each (default as many as stages)"},
	&cli.StringFlag{Name: "config", Usage: "`FILE` of a trainer, or several with commas: TrainingArguments, accelerate, DeepSpeed, axolotl, torchtune or torchtitan, as JSON, YAML or TOML; its switches get a verdict, and flags override it"},
	&cli.BoolFlag{Name: "checkpointing", Usage: "with the model's own gradient checkpointing"},
}

var fitCommand = &cli.Command{
	Name:      "fit",
	Category:  "Plan",
	Usage:     "tell whether a step of a model fits a device, and what it costs, before anything is allocated",
	ArgsUsage: "MODEL",
	UsageText: "memopt fit llama-8b --for h100 --batch 4 --seq 4096\n" +
		"memopt fit config.json --budget 24GiB --batch 4 --seq 4096 --dtype bf16\n" +
		"memopt fit llama-1b --for 4090 --config axolotl.yaml\n" +
		"memopt fit train.py:make --budget 24GiB --html fit.html\n" +
		"memopt fit gpt.onnx --dims batch=8,seq=1024 --budget 6GiB\n" +
		"memopt fit step.json.gz --for h100",
	Description: "MODEL is a config.json of transformers or diffusers or its folder, without weights; file.py:function, which returns a module and a batch; or a model of --list: these are made and recorded without bytes by Python with PyTorch, which this command starts. " +
		"An ONNX file, with the sizes of its dims, and a step that memopt.record saved need no Python. Exit code 1: it does not fit, under no plan.",
	Flags: common(slices.Concat(fitFields, fitSettings(), []cli.Flag{
		htmlFlag("write a self-contained page: who holds the memory in which phase, what would fit, memory over the step"),
		&cli.BoolFlag{Name: "list", Usage: "list well-known models"},
		&cli.StringFlag{Name: "python", Usage: "`PATH` Python with memopt, PyTorch and transformers (default MEMOPT_PYTHON, else python3)"}})...),
	Action: func(c *cli.Context) error {
		want := "MODEL"
		if c.Bool("list") {
			want = ""
		}
		asJSON, err := begin(c, want)
		if err != nil {
			return err
		}
		if !c.Bool("list") && hasStep(c.Args().First()) {
			return fitsFile(c, asJSON)
		}
		for name := range given(c) {
			if name == "dims" || name == "loss" {
				return usage("--%s is for ONNX files: give --batch and --seq", name)
			}
		}
		asked := map[string]any{"format": "text", "list": c.Bool("list")}
		if asJSON {
			asked["format"] = "json"
		}
		if !c.Bool("list") {
			asked["request"] = fitRequest(c)
			page, err := fitPage(c)
			if err != nil {
				return err
			}
			if page != "" {
				asked["html"] = page
			}
		}
		return inPython(c, benchPython(c.String("python")), asked)
	},
}

// fitRequest is the request of the flags that were given. Python checks what they say.
func fitRequest(c *cli.Context) map[string]any {
	request := map[string]any{"model": c.Args().First()}
	for _, f := range fitFields {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		field := strings.ReplaceAll(name, "-", "_")
		if name == "for" {
			field = "for_device"
		}
		request[field] = c.Value(name)
	}
	return request
}

// fitPage is the absolute path of the page to write, or "", checked before anything is recorded.
func fitPage(c *cli.Context) (string, error) {
	to := c.String("html")
	if to == "" {
		return "", nil
	}
	model := c.Args().First()
	if i := strings.LastIndexByte(model, ':'); i > 0 {
		model = model[:i]
	}
	read := append([]string{model, filepath.Join(model, "config.json")}, strings.Split(c.String("config"), ",")...)
	if file := c.String("lengths"); file != "" {
		read = append(read, file)
	}
	if err := writable([]destination{{"--html", to}}, read); err != nil {
		return "", err
	}
	return filepath.Abs(to)
}

// inPython has the Python package answer a request: results on standard output, and its exit code.
func inPython(c *cli.Context, python string, asked map[string]any) error {
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(python)
	if err != nil {
		return &cannotFit{fmt.Sprintf("memopt fit needs Python with PyTorch, in which the model is made and recorded without bytes, and there is no %s: %s", python, fitInstall)}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var out, notes bytes.Buffer
	command := exec.CommandContext(c.Context, path, "-m", "memopt", "fit-model")
	command.Env = append(os.Environ(), "MEMOPT_PLUGIN_PATH="+self)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), &out, &notes
	done := busy(c, "recording the step without bytes")
	err = command.Run()
	done()
	said := strings.TrimSpace(notes.String())
	last := ours(said)
	var ended *exec.ExitError
	switch {
	case err == nil:
	case !errors.As(err, &ended):
		return err
	case strings.Contains(said, "No module named memopt") || strings.Contains(said, "No module named 'memopt'"):
		return &cannotFit{fmt.Sprintf("memopt fit needs the Python package memopt with PyTorch, and %s does not have it: %s", path, fitInstall)}
	case strings.Contains(said, "need PyTorch"):
		return &cannotFit{fmt.Sprintf("memopt fit needs PyTorch, and %s does not have it: %s", path, fitInstall)}
	case ended.ExitCode() != exit.CodeCannot && ended.ExitCode() != exit.CodeInput || last == "":
		return &cannotFit{fmt.Sprintf("%s -m memopt fit-model failed: %s", path, lastLine(said))}
	}
	visible.Fprintf(c.App.Writer, "%s", visible.Lines(out.String()))
	if err == nil {
		return nil
	}
	if ended.ExitCode() == exit.CodeInput {
		return usage("%s", last)
	}
	return &cannotFit{last}
}

// ours is the last line that memopt said, among those of a model's own code and of libraries, or "".
func ours(said string) string {
	lines := strings.Split(said, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if text, ok := strings.CutPrefix(lines[i], "memopt: "); ok {
			return text
		}
	}
	return ""
}

const fitInstall = "pip install 'memopt[torch]' transformers, or name another with --python or MEMOPT_PYTHON"

// cannotFit is the error of a step that does not fit, or that nothing is there to answer for.
type cannotFit struct{ text string }

func (e *cannotFit) Error() string { return e.text }
func (e *cannotFit) ExitCode() int { return exit.CodeCannot }

func lastLine(text string) string {
	return text[strings.LastIndexByte(text, '\n')+1:]
}
