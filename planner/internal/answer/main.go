// Command answer solves problems in numbers, for tests in other languages. It
// reads JSON values from standard input and writes a line of JSON for each:
// problems as recompute.Problem has them, with the limits that are asked for.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"memopt/planner/recompute"
)

type question struct {
	Cost                  []float64
	Work, Bytes           []int64
	Again, Held           []bool
	Inputs, Outputs, Over [][]int32
	Border                int32
	Limits                []int64
}

type reply struct {
	Floor   int64    `json:"floor"`
	Answers []answer `json:"answers"`
}

type answer struct {
	Found    bool    `json:"found"`
	Launches []int32 `json:"launches"`
	Peak     int64   `json:"peak"`
	Extra    float64 `json:"extra"`
	Bound    float64 `json:"bound"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(in io.Reader, out io.Writer) error {
	questions, replies := json.NewDecoder(in), json.NewEncoder(out)
	questions.DisallowUnknownFields()
	for {
		var q question
		err := questions.Decode(&q)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := q.solve()
		if err != nil {
			return err
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func (q question) solve() (r reply, err error) {
	p := &recompute.Problem{Cost: q.Cost, Work: q.Work, Again: q.Again, Border: q.Border, Bytes: q.Bytes, Held: q.Held}
	for lists, from := range map[*recompute.Lists][][]int32{&p.Inputs: q.Inputs, &p.Outputs: q.Outputs, &p.Over: q.Over} {
		for _, list := range from {
			lists.Add(list...)
		}
	}
	s, err := recompute.New(p)
	if err != nil {
		return r, err
	}
	r.Floor = recompute.FloorOf(p).Peak
	for _, limit := range q.Limits {
		a, found := s.Solve(limit, recompute.Ask{})
		r.Answers = append(r.Answers, answer{found, a.Launches, a.Peak, a.Extra, a.Bound})
	}
	return r, nil
}
