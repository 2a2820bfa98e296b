package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/machine"
	"memopt/memopt/report"
	"memopt/planner"
)

// refusalFile is the JSON for a request that cannot be met. Standard error still has the message, and the exit code
// is 1.
type refusalFile struct {
	Format  string       `json:"format"`
	Message string       `json:"message"`
	Want    int64        `json:"want"`              // arena bytes that the budgets allow
	Best    int64        `json:"best"`              // arena bytes of the lowest plan found; 0 if bytes are not what is missing
	Fixed   int64        `json:"fixed"`             // bytes outside the arena
	Counted int64        `json:"counted,omitempty"` // those of them that the budget counts: best + counted would do
	Floor   *floorFile   `json:"floor,omitempty"`
	Changes []changeFile `json:"changes"` // changes that would fit, each of them alone
	Note    string       `json:"note,omitempty"`
	Memory  *memoryFile  `json:"memory,omitempty"` // for a lack of memory
}

// memoryFile describes the memory of the limit, arena or device that refused.
type memoryFile struct {
	Requested int64       `json:"requested"`
	For       string      `json:"for"`
	InUse     int64       `json:"in_use"`
	Reserved  int64       `json:"reserved"`
	Hole      int64       `json:"largest_hole"`
	Limit     int64       `json:"limit"` // 0 is none
	Largest   []ownedFile `json:"largest_owners"`
}

type ownedFile struct {
	Owner string `json:"owner"`
	Bytes int64  `json:"bytes"`
}

type floorFile struct {
	planner.Floor
	Op     string `json:"op,omitempty"`
	Module string `json:"module,omitempty"`
}

type changeFile struct {
	Setting  string            `json:"setting"`  // spelled as the user spells settings
	Settings map[string]string `json:"settings"` // by name; of dims, those that change
	Note     string            `json:"note,omitempty"`
	Share    float64           `json:"share"` // relative size of the change
}

// refusalDoc is for the help of commands that print a refusal.
const refusalDoc = "With --format json a budget that cannot be met also prints a memopt.refusal/1 object: " +
	"want, best and fixed bytes, the floor, and the changes that would fit."

// refused prints a request that cannot be met as JSON, if JSON was requested, and returns the error for people.
func refused(c *cli.Context, cfg configs.Config, err error) error {
	f := refusalOf(err)
	if f == nil {
		return err
	}
	if c.String("format") == "json" {
		if wrong := printJSON(c.App.Writer, f); wrong != nil {
			return wrong
		}
	}
	r := refusal{error: err, headline: filepath.Base(c.Args().First()) + ": "}
	var budget *planner.BudgetError
	var memory *machine.MemoryError
	switch {
	case errors.As(err, &memory):
		r.headline += memory.Err.Error()
		r.rows = memoryRows(memory)
	case errors.As(err, &budget):
		size := report.Bytes
		// Rounding would hide the difference.
		if budget.Best > 0 && size(budget.Best+budget.Fixed) == size(budget.Want+budget.Fixed) {
			size = func(n int64) string { return report.Thousands(n) + " bytes" }
		}
		r.headline += headline(cfg, err, budget, size)
		r.rows = obstacles(budget, cfg.Budget.IsZero(), size)
	}
	return r
}

// memoryRows are the largest owners of memory, if the message does not name them, and the changes that would fit.
func memoryRows(e *machine.MemoryError) (rows [][]string) {
	if !e.Named() {
		for i, o := range e.Short.Largest {
			label := "largest"
			if i > 0 {
				label = ""
			}
			rows = append(rows, []string{"", label, o.Owner + ", " + report.Bytes(o.Bytes)})
		}
	}
	return append(rows, changeRows(e.Changes, e.Note)...)
}

// changeRows are the changes that would fit, and the note.
func changeRows(changes []planner.Change, note string) (rows [][]string) {
	for i, change := range changes {
		label := "would fit"
		if i > 0 {
			label = ""
		}
		rows = append(rows, []string{"", label, change.Text})
	}
	if note != "" {
		rows = append(rows, []string{"", "note", note})
	}
	return rows
}

// refusal is a request that cannot be met, formatted for people: a headline, then rows with the obstacles, and with
// one change that would fit per line.
type refusal struct {
	error
	headline string
	rows     [][]string
}

func (r refusal) Unwrap() error { return r.error }

// headline says what cannot be met.
func headline(cfg configs.Config, err error, budget *planner.BudgetError, size func(int64) string) string {
	if budget.Best == 0 { // bytes are not what is missing
		msg, _, _ := strings.Cut(err.Error(), "; would fit: ")
		return msg
	}
	text := "no plan fits"
	if budget.Least > 0 {
		text, _, _ = strings.Cut(err.Error(), ":") // such as "not even batch=1 fits"
	}
	var limits []string
	if b := cfg.Budget; !b.IsZero() {
		limits = append(limits, limit(b, budget.Want+budget.Fixed, size))
	}
	if b := cfg.ActivationBudget; !b.IsZero() {
		limits = append(limits, "an arena of "+limit(b, budget.Want, size))
	}
	text += " " + strings.Join(limits, " and ")
	if cfg.MaxOverhead > 0 {
		text += fmt.Sprintf(" within %s %s", report.Extra(cfg.MaxOverhead, 1), planner.Unit(cfg.Cost != "flops"))
	}
	return text
}

// limit formats a budget, with its bytes if it is a percentage.
func limit(b configs.Budget, bytes int64, size func(int64) string) string {
	if b.Percent == 0 {
		return size(b.Bytes)
	}
	return fmt.Sprintf("%s (%s)", b, size(bytes))
}

// obstacles are the lowest plan's size, the floor, and the changes that would fit.
func obstacles(budget *planner.BudgetError, arena bool, size func(int64) string) (rows [][]string) {
	if budget.Best > 0 {
		fixed := budget.Fixed
		if arena {
			fixed = 0
		}
		rows = append(rows, []string{"", "lowest found", size(budget.Best + fixed)},
			[]string{"", "floor", size(budget.Floor.Peak+fixed) + ", set by node " + budget.Floor.Node + floorsPlace(budget)})
		if fixed > 0 {
			rows = append(rows, []string{"", "of these", size(fixed) + " are parameters, optimizer states and inputs"})
		}
	}
	return append(rows, changeRows(budget.Changes, budget.Note)...)
}

// floorsPlace is the operator and the module of the floor's node, unless the node's name contains the module.
func floorsPlace(budget *planner.BudgetError) string {
	m := budget.FloorModule
	if m == "" || strings.Contains(strings.ReplaceAll(budget.Floor.Node, "/", "."), m) {
		return ""
	}
	return fmt.Sprintf(" (%s in %s)", budget.FloorOp, m)
}

// refusedRequest adds the JSON to an error, for hosts of the service.
func refusedRequest(err error) error {
	if f := refusalOf(err); f != nil {
		return refusedError{err, f}
	}
	return err
}

type refusedError struct {
	error
	refusal *refusalFile
}

func (e refusedError) Unwrap() error { return e.error }

// Refusal is the JSON that the command line prints.
func (e refusedError) Refusal() string {
	data, err := json.Marshal(e.refusal)
	if err != nil {
		panic(err) // numbers and texts can always be marshalled
	}
	return string(data)
}

// refusalOf is the JSON for an error; nil if it is not about a request that cannot be met.
func refusalOf(err error) *refusalFile {
	var budget *planner.BudgetError
	var memory *machine.MemoryError
	var changes []planner.Change
	f := &refusalFile{Format: "memopt.refusal/1", Changes: []changeFile{}}
	switch {
	case errors.As(err, &memory):
		s := memory.Short
		f.Memory = &memoryFile{Requested: s.Requested, For: s.For, InUse: s.InUse, Reserved: s.Reserved, Hole: s.Hole, Limit: s.Limit, Largest: []ownedFile{}}
		for _, o := range s.Largest {
			f.Memory.Largest = append(f.Memory.Largest, ownedFile(o))
		}
		changes, f.Note = memory.Changes, memory.Note
	case errors.As(err, &budget):
		f.Want, f.Best, f.Fixed, f.Counted = budget.Want, budget.Best, budget.Fixed, budget.Counted
		if budget.Floor.Peak > 0 {
			f.Floor = &floorFile{budget.Floor, budget.FloorOp, budget.FloorModule}
		}
		changes, f.Note = budget.Changes, budget.Note
	default:
		return nil
	}
	f.Message = err.Error()
	for _, change := range changes {
		set := map[string]string{}
		for _, s := range change.Set {
			set[s.Name] = s.Value
		}
		f.Changes = append(f.Changes, changeFile{change.Text, set, change.Note, change.Share})
	}
	return f
}
