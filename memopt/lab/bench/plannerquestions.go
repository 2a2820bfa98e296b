package bench

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/report"
	"memopt/planner"
)

// question is a question that needs many plans.
type question struct {
	name string
	ask  func(g *graph.Graph, dims map[string]int64) (answer string, err error)
}

var (
	frontier     = question{"frontier", askFrontier}
	largestBatch = question{"largest batch within 4 GiB", func(g *graph.Graph, dims map[string]int64) (string, error) { return askLargest(g, dims, 0) }}
	cheapBatch   = question{"largest batch within 4 GiB, 10 % extra", func(g *graph.Graph, dims map[string]int64) (string, error) { return askLargest(g, dims, 0.1) }}
)

// questionDims is the sizes of the programs' dims.
var questionDims = map[string]int64{"batch": 8, "seq": 128}

// plannerQuestions lists programs, questions, and the milliseconds that an answer may take.
var plannerQuestions = []struct {
	name string
	spec zoo.Spec
	question
	bar   float64
	quick bool
}{
	{"GPT, 12 layers", zoo.Spec{Family: "gpt", Layers: 12}, frontier, 1000, true},
	{"GPT, 48 layers", zoo.Spec{Family: "gpt", Layers: 48}, frontier, 1000, false},
	{"GPT, 48 layers", zoo.Spec{Family: "gpt", Layers: 48}, largestBatch, 1000, false},
	{"GPT, 48 layers", zoo.Spec{Family: "gpt", Layers: 48}, cheapBatch, 1000, false},
	{"GPT, 96 layers", zoo.Spec{Family: "gpt", Layers: 96}, frontier, 200, false},
}

// AnswerRow is one question.
type AnswerRow struct {
	Model    string `json:"model"`
	Nodes    int    `json:"nodes"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Clock
}

func (b *plannerBench) questions() error {
	for _, q := range plannerQuestions {
		if b.o.Quick && !q.quick {
			continue
		}
		b.says("%s: %s", q.name, q.question.name)
		g, err := trainingStep(q.spec)
		if err != nil {
			return err
		}
		row := AnswerRow{Model: q.name, Nodes: len(g.Nodes), Question: q.question.name}
		if row.Clock, err = b.clock(q.bar, func() error {
			row.Answer, err = q.ask(g, questionDims)
			return err
		}); err != nil {
			return err
		}
		b.report.Questions = append(b.report.Questions, row)
	}
	return nil
}

func askFrontier(g *graph.Graph, dims map[string]int64) (string, error) {
	c, err := planner.Frontier(g, planner.Request{Dims: dims})
	if err != nil {
		return "", err
	}
	first, last := c.Points[0], c.Points[len(c.Points)-1]
	return fmt.Sprintf("%d points, %s to %s at %s", len(c.Points), report.Bytes(first.Peak), report.Bytes(last.Peak), report.Extra(last.Overhead, 1)), nil
}

func askLargest(g *graph.Graph, dims map[string]int64, overhead float64) (string, error) {
	p, err := planner.Largest(g, planner.Request{Dims: dims, Budget: planner.Size{Bytes: 4 << 30}, MaxOverhead: overhead}, "batch", 0)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d at %s", p.Request.Dims["batch"], report.Extra(p.Result.Overhead, 1)), nil
}
