package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

var maxseqCommand = &cli.Command{
	Name:      "maxseq",
	Category:  "Plan",
	Usage:     "find the longest sequence that fits a budget, and what has to be chosen for it",
	ArgsUsage: "MODEL",
	UsageText: "memopt maxseq gpt.onnx --dims batch=1 --budget 24GiB\n" +
		"memopt maxseq gpt.onnx --dims batch=1 --budget 8GiB --offload disk",
	Description: refusalDoc,
	Flags: settingFlags("maxseq",
		profileFlag(),
		&cli.StringFlag{Name: "dim", Usage: "`NAME` the dim that counts tokens (default: the one called seq, sequence, sequence_length, seq_len, seq_length, length or tokens)"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` write the plan (JSON)"},
		&cli.BoolFlag{Name: "measure", Usage: "run two steps of that length under the plan, on made-up numbers, and show promised and measured memory"},
	),
	Action: onStep(func(c *cli.Context, j job, asJSON bool) error {
		dim := c.String("dim")
		if dim == "" {
			var err error
			if dim, err = j.sequence(); err != nil {
				return err
			}
		}
		return printLargest(c, j, dim, asJSON)
	}, "output"),
}

// sequences are names of the dim that counts tokens, as exporters write them.
var sequences = []string{"seq", "sequence", "sequence_length", "seq_len", "seq_length", "length", "tokens"}

// isSequence reports whether a dim counts tokens, as far as its name tells.
func isSequence(dim string) bool { return slices.Contains(sequences, strings.ToLower(dim)) }

// sequence is the dim of the model that counts tokens.
func (j job) sequence() (string, error) {
	model, err := j.open()
	if err != nil {
		return "", err
	}
	defer model.Close()
	names := model.Graph.Names()
	for _, name := range names {
		if isSequence(name) {
			return name, nil
		}
	}
	if len(names) == 0 {
		return "", usage("the model has no named dims, so that its sequences have one length")
	}
	return "", usage("none of the model's dims %s is known to count tokens; --dim names it", strings.Join(names, ", "))
}
