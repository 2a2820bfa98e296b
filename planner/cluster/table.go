package cluster

import (
	"cmp"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/visible"
)

// Line is a row of the plan table.
type Line struct {
	Key Key
	On  bool
	// Saving is the parsed formula of all outputs, under Compat of one a node; Value its value at
	// the known sizes as text, Bytes as a number, 0 if sizes are missing.
	Saving Expression
	Value  string
	Bytes  float64
}

// Table lists the keys of an analysis like ONNX Runtime: by falling savings at the given sizes,
// then by text. A row is on if one of its places is recomputed; under Compat, if requests name all
// its plans with a count other than 0.
func (a *Analysis) Table(requests []Request, sizes map[string]int64) ([]Line, error) {
	chosen := map[Choice]bool{}
	for _, c := range a.Choose(requests).Choices {
		chosen[c] = true
	}
	named := map[Part]bool{}
	for _, r := range requests {
		named[Part{r.ID, r.Type}] = r.Count != 0
	}
	var lines []Line
	for _, k := range a.Keys() {
		on := slices.ContainsFunc(k.Members, func(m Member) bool { return a.isOn(m, chosen) })
		if a.Rules.Compat != "" {
			on = !slices.ContainsFunc(k.Parts, func(p Part) bool { return !named[p] })
		}
		raw := a.Raw(&k, a.Rules.Compat != "")
		e, err := ParseSaving(raw)
		if err != nil {
			return nil, fmt.Errorf("%w (of %s)", err, &k)
		}
		l := Line{Key: k, On: on, Saving: e, Value: ValueText(e, sizes)}
		l.Bytes, _ = e.At(sizes).Number()
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Key.String(), b.Key.String()))
	})
	return lines, nil
}

func (a *Analysis) isOn(m Member, chosen map[Choice]bool) bool {
	return chosen[Choice{m.Plan, m.Option}] && !slices.ContainsFunc(m.Reusing, func(with Member) bool { return !a.isOn(with, chosen) })
}

// Heading is the line above the plan table.
type Heading struct {
	On    bool
	Level int
	Path  string // of the plan file
}

// levels is ONNX Runtime's names of its levels.
var levels = []string{"USER_SPECIFIED", "TRANSFORMER_LAYERWISE_RECOMPUTE", "TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE"}

// The longest names in the other rows of ONNX Runtime's summary of features, which set the widths
// of the columns that the plan table shares.
const (
	longestFeature = "ZeRO Stage3 Support"
	longestState   = "OFF"
)

// PrintTable writes the feature's row and its plans, with the same blanks as ONNX Runtime.
func PrintTable(w io.Writer, h Heading, lines []Line) error {
	state, text := longestState, "Enable with env ORTMODULE_MEMORY_OPT_LEVEL=1/2 or ORTMODULE_MEMORY_OPT_CONFIG=<config.json>"
	if h.On {
		state, text = "ON", fmt.Sprintf("Memory Optimization Level: [%s], Optimization Config: [%s]", levels[h.Level], h.Path)
	}
	wide := []int{len(longestFeature), 1, len(longestState), 1}
	rows := [][]string{{"", "", "", "", "Configs", "Freq", "Max Saving(Bytes)", "Saving Symbolic(Bytes)"}}
	for i, l := range lines {
		state := longestState
		if l.On {
			state = "ON"
		}
		rows = append(rows, []string{fmt.Sprintf(" - Plan %d", i+1), ":", state, ":", l.Key.String(), strconv.Itoa(len(l.Key.Members)), l.Value, l.Saving.String()})
	}
	if len(lines) == 0 {
		rows = nil
	}
	if err := printRows(w, [][]string{{"Memory Optimizer", ":", state, ":", text}}, wide); err != nil {
		return err
	}
	return printRows(w, rows, wide)
}

// printRows pads cells to the longest cell of their column, or the given width, and two blanks.
func printRows(w io.Writer, rows [][]string, wide []int) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = visible.Line(cell)
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], len(row[i]))
		}
	}
	for _, row := range rows {
		var sb strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&sb, "%-*s", wide[i]+2, cell)
		}
		if _, err := fmt.Fprintln(w, sb.String()); err != nil {
			return err
		}
	}
	return nil
}

// PrintNotes writes ONNX Runtime's notes under a table, with the sizes of the first batch that the
// savings were computed with, in the order of the program's inputs.
func PrintNotes(w io.Writer, o *graph.Outline, sizes map[string]int64) error {
	var dims strings.Builder
	seen := map[string]bool{}
	for _, in := range o.Inputs {
		for _, d := range o.Values[in].Shape {
			for _, name := range d.Names() {
				if n, ok := sizes[name]; ok && !seen[name] {
					seen[name] = true
					visible.Fprintf(&dims, "  %s=%d,", name, n)
				}
			}
		}
	}
	_, err := fmt.Fprintf(w, `Note 1: [Memory Optimizer] Use ORTMODULE_MEMORY_OPT_LEVEL=1 or 2 to enable all recomputable subgraphs per transformer layer.
Note 2: [Memory Optimizer] Or use comma as a delimiter to selectively enable multiple memory optimization plans:
  export ORTMODULE_MEMORY_OPT_CONFIG=<config.json>
Note 3: [Memory Optimizer] Memory saving is calculated based on the 1st batch symbolic dim values:
%s
`, dims.String())
	return err
}

// KeysOf lists the keys of a table.
func KeysOf(lines []Line) (keys []Key) {
	for _, l := range lines {
		keys = append(keys, l.Key)
	}
	return keys
}

// ValueText is a saving at the known sizes: an integer with thousands separators, or the remaining
// formula.
func ValueText(e Expression, sizes map[string]int64) string {
	at := e.At(sizes)
	x, ok := at.Number()
	if !ok {
		return at.String()
	}
	return thousands(x)
}

func thousands(x float64) string {
	digits := new(big.Float).SetFloat64(x).Text('f', 0)
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, groups...), ",")
}
