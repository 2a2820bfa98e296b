package main

import (
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v2"

	"memopt/planner"
)

// refusalFile is the JSON of a request that cannot be met. Standard error has the
// message as ever, and the exit code is 1.
type refusalFile struct {
	Format  string             `json:"format"`
	Message string             `json:"message"`
	Want    int64              `json:"want"`  // arena bytes that budgets leave
	Best    int64              `json:"best"`  // those of the lowest plan found; 0 if it is not for bytes
	Fixed   int64              `json:"fixed"` // bytes beside the arena
	Floor   *planner.FileFloor `json:"floor,omitempty"`
	Changes []changeFile       `json:"changes"` // what would fit, one of them each
}

type changeFile struct {
	Setting  string            `json:"setting"`  // as whoever asked spells settings
	Settings map[string]string `json:"settings"` // by name; of dims those that change
	Note     string            `json:"note,omitempty"`
	Share    float64           `json:"share"` // how large a change that is
}

// refusalDoc is for the help of commands that print one.
const refusalDoc = "With --format json a budget that cannot be met prints a memopt.refusal/1 object beside the message:\n" +
	"want, best and fixed bytes, the floor, and the changes that would fit."

// refused prints a request that cannot be met as JSON, if that was asked for, and is
// the error.
func refused(c *cli.Context, asJSON bool, err error) error {
	var budget *planner.BudgetError
	if !asJSON || !errors.As(err, &budget) {
		return err
	}
	if wrong := printJSON(c.App.Writer, refusalOf(err, budget)); wrong != nil {
		return wrong
	}
	return err
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
		floor := planner.FileFloor(budget.Floor)
		f.Floor = &floor
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
