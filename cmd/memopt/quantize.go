package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/forward"
	"memopt/memopt/report"
	"memopt/plugin"
)

var quantizeCommand = &cli.Command{
	Name:      "quantize",
	Category:  "Models",
	Usage:     "quantize the weights of a forward model to 8-bit integers, and its activations on request",
	ArgsUsage: "MODEL",
	UsageText: "memopt quantize gpt.onnx -o gpt.int8.onnx\n" +
		"memopt quantize gpt.onnx -o q.onnx --per-channel --exclude /lm_head/MatMul\n" +
		"memopt quantize gpt.onnx -o q.onnx --calibrate gpt.npz --dims batch=8",
	Description: "Like ONNX Runtime's quantize_dynamic: products run on integers, and activations are quantized when the model runs. " +
		"With --calibrate like its quantize_static: activations have scales in the file, from their ranges on sample inputs. " +
		"Tensors and nodes that are not quantized are listed with the reason. On x86 processors with AVX2 and no VNNI, ONNX Runtime's 8-bit products saturate, " +
		"and memopt's do not: --reduce-range makes models that give the same in both.",
	Flags: settingFlags("quantize",
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` where to write the model (ONNX)"},
	),
	Action: onModel(func(c *cli.Context, cfg configs.Config, asJSON bool) error {
		to, err := written(c, cfg)
		if err != nil {
			return err
		}
		path := c.Args().First()
		done := busy(c, "quantizing "+filepath.Base(path))
		found, warnings, err := quantized(c.Context, path, to, cfg)
		done()
		if err != nil {
			return err
		}
		warn(c, warnings...)
		return found.print(c, asJSON)
	}),
}

func (front) Quantize(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	return ask(ctx, r, func(j job) (answer, error) {
		if len(j.to) == 0 {
			return answer{}, usage("no file given to write the model to")
		}
		found, warnings, err := quantized(j.ctx, j.model, j.to[0].path, j.cfg)
		j.warn(warnings...)
		return found, err
	}, "quantize", destination{"save_to", r.SaveTo})
}

// quantized writes the quantized model and returns a report.
func quantized(ctx context.Context, path, to string, cfg configs.Config) (answer, []string, error) {
	q, err := forward.Quantize(ctx, path, to, cfg)
	if err != nil {
		return answer{}, nil, err
	}
	json := struct {
		Format string `json:"format"`
		Path   string `json:"path"`
		forward.Quantized
	}{"memopt.quantize/1", to, q}
	return answer{json, func(w io.Writer) { quantizeText(w, q) }}, q.Warnings, nil
}

func quantizeText(w io.Writer, q forward.Quantized) {
	nodes := 0
	for _, n := range q.Nodes {
		if n.Quantized {
			nodes++
		}
	}
	scales := "one scale a tensor"
	if q.PerChannel {
		scales = "one scale a channel if the operator supports it"
	}
	bits := ""
	if q.ReduceRange {
		bits = ", 7 bits"
	}
	rows := [][]string{
		{"weights", fmt.Sprintf("%s%s, %s: %d tensors of %d", q.Report.Weights, bits, scales, len(q.Tensors), len(q.Tensors)+len(q.Skipped))},
		{"nodes", fmt.Sprintf("%d of %d with a quantized form", nodes, len(q.Nodes))},
		{"bytes", fmt.Sprintf("%s → %s%s", report.Bytes(q.Before), report.Bytes(q.After), shrunk(q.Before, q.After))},
	}
	if q.QuantFormat != "" {
		rows = append(rows, []string{"activations", fmt.Sprintf("%s, in the format %s", q.Activations, q.QuantFormat)})
	}
	if len(q.Tensors) > 0 {
		rows = append(rows, []string{"worst", fmt.Sprintf("largest change of a weight %.3g", q.WorstError)})
	}
	report.Table(w, "lt", rows)
	if len(q.Tensors) > 0 {
		rows = [][]string{{"tensor", "shape", "as", "bytes", "to", "max error"}}
		for _, t := range q.Tensors {
			as := t.Type
			if t.Scales > 1 {
				as += fmt.Sprintf(" × %d", t.Scales)
			}
			if t.Kept {
				as += " + f32"
			}
			rows = append(rows, []string{t.Name, fmt.Sprint(t.Shape), as, report.Bytes(t.Before), report.Bytes(t.After), fmt.Sprintf("%.3g", t.WorstError)})
		}
		fmt.Fprintln(w)
		report.Table(w, "=nl1lrrr2", rows)
	}
	// Tensors skipped for the same reason share a row.
	type why struct {
		tensors int
		bytes   int64
	}
	left, order := map[string]*why{}, []string{}
	for _, s := range q.Skipped {
		if left[s.Reason] == nil {
			left[s.Reason] = &why{}
			order = append(order, s.Reason)
		}
		left[s.Reason].tensors++
		left[s.Reason].bytes += s.Bytes
	}
	if len(order) > 0 {
		rows = [][]string{{"not quantized", "bytes", "why"}}
		for _, reason := range order {
			rows = append(rows, []string{fmt.Sprint(left[reason].tensors), report.Bytes(left[reason].bytes), reason})
		}
		fmt.Fprintln(w)
		report.Table(w, "=rrt", rows)
	}
	// So do nodes.
	type reason struct{ op, why string }
	nodesLeft, first, kinds := map[reason]int{}, map[reason]string{}, []reason{}
	for _, n := range q.Nodes {
		if n.Quantized {
			continue
		}
		key := reason{n.Op, n.Reason}
		if nodesLeft[key]++; nodesLeft[key] == 1 {
			kinds, first[key] = append(kinds, key), n.Name
		}
	}
	if len(kinds) > 0 {
		rows = [][]string{{"not quantized", "op", "why", "such as"}}
		for _, key := range kinds {
			why := key.why
			if strings.HasPrefix(why, "is computed") {
				why = "an input " + why
			}
			rows = append(rows, []string{fmt.Sprint(nodesLeft[key]), key.op, why, first[key]})
		}
		fmt.Fprintln(w)
		report.Table(w, "=rltn1", rows)
	}
}

// shrunk is the ratio of two sizes.
func shrunk(before, after int64) string {
	if before <= 0 || after <= 0 || before == after {
		return ""
	}
	return fmt.Sprintf(" (%.2f ×)", float64(before)/float64(after))
}
