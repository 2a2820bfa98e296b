package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"memopt/configs"
	"memopt/memopt/report"
	"memopt/planner"
)

// refusalFile is the JSON of a request that cannot be met. Standard error has the
// message as ever, and the exit code is 1.
type refusalFile struct {
	Format  string       `json:"format"`
	Message string       `json:"message"`
	Want    int64        `json:"want"`  // arena bytes that budgets leave
	Best    int64        `json:"best"`  // those of the lowest plan found; 0 if it is not for bytes
	Fixed   int64        `json:"fixed"` // bytes beside the arena
	Floor   *floorFile   `json:"floor,omitempty"`
	Changes []changeFile `json:"changes"` // what would fit, one of them each
}

type floorFile struct {
	planner.FileFloor
	Op     string `json:"op,omitempty"`
	Module string `json:"module,omitempty"`
}

type changeFile struct {
	Setting  string            `json:"setting"`  // as whoever asked spells settings
	Settings map[string]string `json:"settings"` // by name; of dims those that change
	Note     string            `json:"note,omitempty"`
	Share    float64           `json:"share"` // how large a change that is
}

// refusalDoc is for the help of commands that print one.
const refusalDoc = "With --format json a budget that cannot be met also prints a memopt.refusal/1 object: " +
	"want, best and fixed bytes, the floor, and the changes that would fit."

// refused prints a request that cannot be met as JSON, if that was asked for, and is
// the error for people.
func refused(c *cli.Context, cfg configs.Config, err error) error {
	var budget *planner.BudgetError
	if !errors.As(err, &budget) {
		return err
	}
	if c.String("format") == "json" {
		if wrong := printJSON(c.App.Writer, refusalOf(err, budget)); wrong != nil {
			return wrong
		}
	}
	r := refusal{error: err, headline: filepath.Base(c.Args().First()) + ": "}
	size := report.Bytes
	if budget.Best > 0 && size(budget.Best+budget.Fixed) == size(budget.Want+budget.Fixed) { // which says nothing
		size = func(n int64) string { return report.Thousands(n) + " bytes" }
	}
	r.headline += headline(cfg, err, budget, size)
	r.rows = obstacles(budget, cfg.Budget.IsZero(), size)
	return r
}

// refusal is a request that cannot be met as people read it: what cannot be, then in
// rows what stands in the way, and one change that would fit on each line.
type refusal struct {
	error
	headline string
	rows     [][]string
}

func (r refusal) Unwrap() error { return r.error }

// headline says what cannot be met.
func headline(cfg configs.Config, err error, budget *planner.BudgetError, size func(int64) string) string {
	if budget.Best == 0 { // no bytes are missing
		msg, _, _ := strings.Cut(err.Error(), "; would fit: ")
		return msg
	}
	text := "no plan fits"
	if budget.Least > 0 {
		text, _, _ = strings.Cut(err.Error(), ":") // not even batch=1 fits
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
		text += fmt.Sprintf(" within %s compute", report.Extra(cfg.MaxOverhead, 1))
	}
	return text
}

// limit is a budget, and what it comes to if it is a share.
func limit(b configs.Budget, bytes int64, size func(int64) string) string {
	if b.Percent == 0 {
		return size(b.Bytes)
	}
	return fmt.Sprintf("%s (%s)", b, size(bytes))
}

// obstacles are what the lowest plan takes, what none can do without, and what would fit.
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
	for i, change := range budget.Changes {
		label := "would fit"
		if i > 0 {
			label = ""
		}
		rows = append(rows, []string{"", label, change.Text})
	}
	if budget.Note != "" {
		rows = append(rows, []string{"", "note", budget.Note})
	}
	return rows
}

// floorsPlace is what the floor's node is and where in the model, where its name does not say so.
func floorsPlace(budget *planner.BudgetError) string {
	m := budget.FloorModule
	if m == "" || strings.Contains(strings.ReplaceAll(budget.Floor.Node, "/", "."), m) {
		return ""
	}
	return fmt.Sprintf(" (%s in %s)", budget.FloorOp, m)
}

// refusedRequest is the error with its JSON, for hosts of the service.
func refusedRequest(err error) error {
	var budget *planner.BudgetError
	if !errors.As(err, &budget) {
		return err
	}
	return refusedError{err, refusalOf(err, budget)}
}

type refusedError struct {
	error
	refusal refusalFile
}

func (e refusedError) Unwrap() error { return e.error }

// Refusal is the JSON that the command line prints.
func (e refusedError) Refusal() string {
	data, err := json.Marshal(e.refusal)
	if err != nil {
		panic(err) // a floor and changes are numbers and texts
	}
	return string(data)
}

func refusalOf(err error, budget *planner.BudgetError) refusalFile {
	f := refusalFile{Format: "memopt.refusal/1", Message: err.Error(), Want: budget.Want, Best: budget.Best, Fixed: budget.Fixed, Changes: []changeFile{}}
	if budget.Floor.Peak > 0 {
		f.Floor = &floorFile{planner.FileFloor(budget.Floor), budget.FloorOp, budget.FloorModule}
	}
	for _, change := range budget.Changes {
		set := map[string]string{}
		for _, s := range change.Set {
			set[s.Name] = s.Value
		}
		f.Changes = append(f.Changes, changeFile{change.Text, set, change.Note, change.Share})
	}
	return f
}
