package forms

import (
	"slices"

	"memopt/memopt/graph"
)

// Row is a choice that changes the graph of a training step.
type Row struct {
	Name           string // in tables: a point of a frontier is one of this form
	Setting, Value string // the setting that asks for it, and its value; "" is any but off and auto
	Doc            string // what it does to a step, as a clause of a sentence
	Plainly        string // how the step is without it
	// Pieces are computed by operators of that facet; with none the choice is of values
	// that are kept in less.
	Pieces graph.Pieces
	// Rounds is what it does to results that makes it nobody's choice but the user's; ""
	// leaves every bit as it is.
	Rounds string
}

// Rows are the choices there are. Several of different settings may be made together;
// what is in pieces is decided first, as it makes the values that can be kept in less.
var Rows = []Row{
	{Name: "loss in chunks", Setting: "chunk_loss", Value: "on", Pieces: graph.LossInChunks,
		Doc:     "the loss is computed some rows at a time, and its scores again for the backward pass",
		Plainly: "all scores at once"},
	{Name: "attention in rows", Setting: "flash_attention", Value: "rows", Pieces: graph.AttentionInRows,
		Doc:     "attention is computed some queries at a time, and its scores again for the backward pass",
		Plainly: "all queries at once"},
	{Name: "attention in tiles", Setting: "flash_attention", Value: "on", Pieces: graph.AttentionInTiles,
		Doc:     "attention is computed some queries and keys at a time",
		Plainly: "all queries at once", Rounds: "it rounds otherwise in the last digits"},
	{Name: "extracts", Setting: "shrink", Value: "on",
		Doc:     "of some values the backward pass keeps exact extracts that are smaller",
		Plainly: "all values whole"},
	{Name: "rounding", Setting: "lossy",
		Doc:     "some values are rounded for the backward pass",
		Plainly: "all values whole", Rounds: "gradients are not exact"},
}

// inPieces are the rows of what is computed in pieces.
var inPieces = slices.DeleteFunc(slices.Clone(Rows), func(r Row) bool { return r.Pieces == graph.NoPieces })

// Settings lists the settings that rows name.
func Settings() (names []string) {
	for _, r := range Rows {
		if !slices.Contains(names, r.Setting) {
			names = append(names, r.Setting)
		}
	}
	return names
}

// mayTake reports whether settings leave a row to the planner.
func (r Row) mayTake(settings map[string]string) bool {
	return settings[r.Setting] == auto && r.Rounds == ""
}

// The values that settings of rows have in common.
const (
	auto = "auto"
	on   = "on"
	off  = "off"
)

// roundedTo are the types that floats can be kept in, by their setting.
var roundedTo = map[string]graph.DType{"bf16": graph.BFloat16, "fp16": graph.Float16, "fp8": graph.Float8E4M3FN}
