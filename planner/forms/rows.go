package forms

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// Row is a choice that changes the graph of a training step.
type Row struct {
	Name           string // in tables, as of a frontier's points
	Setting, Value string // the setting that asks for it, and its value; "" is any but off and auto
	Doc            string // what it does to a step, as a main clause
	// Tiles: values other than off and auto say for one layer after another in how many tiles it is
	// computed: on is as many as keep the bits, off none; the last one goes for all further layers.
	Tiles bool
	// Pieces is the facet of the operators that compute the pieces; NoPieces: the choice is about
	// storing less of values.
	Pieces graph.Pieces
	// Rounds says how the row changes results, in which case only a user may choose it; "": results
	// keep every bit.
	Rounds string
}

// Rows is the table of choices. Choices of different settings may be combined. Pieces are decided
// first, since the graph they make has the values that can be stored smaller.
var Rows = []Row{
	{Name: "loss in chunks", Setting: "chunk_loss", Value: "on", Pieces: graph.LossInChunks,
		Doc: "the loss is computed some rows at a time, and its scores are recomputed for the backward pass"},
	{Name: "attention in rows", Setting: "flash_attention", Value: "rows", Pieces: graph.AttentionInRows,
		Doc: "attention is computed some queries at a time, and its scores are recomputed for the backward pass"},
	{Name: "attention in tiles", Setting: "flash_attention", Value: "on", Pieces: graph.AttentionInTiles,
		Doc:    "attention is computed some queries and keys at a time",
		Rounds: "the last digits are rounded differently"},
	{Name: "feed-forward in rows", Setting: "sequence_tiles", Value: "on", Tiles: true, Pieces: graph.FeedForwardInRows,
		Doc: "feed-forward layers are computed some rows at a time, and their hidden values are recomputed for the backward pass"},
	{Name: "extracts", Setting: "shrink", Value: "on",
		Doc: "exact extracts of some values are kept for the backward pass, which are smaller"},
	{Name: "rounding", Setting: "lossy",
		Doc:    "some values are rounded for the backward pass",
		Rounds: "gradients are not exact"},
}

// inPieces are the rows that compute something in pieces.
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

// asks reports whether a value of the row's setting asks for it.
func (r Row) asks(value string) bool {
	if r.Tiles {
		return value != off && value != auto && value != ""
	}
	return value == r.Value
}

// tiled is the value of a row's setting with the first layers whole, and the others in so many
// tiles; 0 is as many as keep the bits.
func tiled(whole, tiles int) string {
	last := on
	if tiles > 0 {
		last = strconv.Itoa(tiles)
	}
	return strings.Repeat(off+",", whole) + last
}

// said is the row's name with a value of its setting.
func (r Row) said(value string) string {
	if !r.Tiles {
		return r.Name
	}
	whole := strings.Count(value, off)
	tiles := strings.TrimPrefix(value, strings.Repeat(off+",", whole))
	name := r.Name
	switch {
	case strings.Contains(tiles, ","):
		return fmt.Sprintf("%s (%s)", name, value)
	case tiles != on:
		name += fmt.Sprintf(" in %s tiles", tiles)
	}
	switch whole {
	case 0:
		return name
	case 1:
		return name + " but for the first layer"
	default:
		return fmt.Sprintf("%s but for the first %d layers", name, whole)
	}
}

// Values of the settings in Rows.
const (
	auto = "auto"
	on   = "on"
	off  = "off"
)

// roundedTo maps values of the setting lossy to types.
var roundedTo = map[string]graph.DType{"bf16": graph.BFloat16, "fp16": graph.Float16, "fp8": graph.Float8E4M3FN}
