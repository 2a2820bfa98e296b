// Package fitwords has the words of an answer whether a step fits, for the command and, by way of the generator, for Python.
package fitwords

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Words of all answers. What stands in braces is filled in; see Fill.
const (
	Format = "memopt.fit/1"

	// Phases that all steps have.
	Load       = "load"
	FirstStep  = "first step"
	LaterSteps = "later steps"

	// Rungs of the ladder.
	AsItIs     = "as it is"
	LowestPlan = "lowest plan"
	atNoCost   = "plan at no cost"
	planWithin = "plan within "

	// Heads of tables, and what stands in them.
	Total        = "total"
	Takes        = "takes"
	AStep        = "a step"
	LargestBatch = "largest batch"
	LongestRow   = "longest row"
	Fits         = "fits"
	FitsNot      = "does not fit"
	None         = "none"

	// Headings of the page.
	HeadPhases   = "Who holds the memory in which phase"
	HeadLadder   = "What would fit"
	HeadTimeline = "Memory over the step, as it is"

	// Verdicts.
	NoBudget  = "takes {peak}; give a budget to see whether that fits"
	Whole     = "fits {budget} as it is: {peak}"
	Under     = "fits {budget} {how}: {total} for {extra} {unit}; as it is {peak}"
	UnderPlan = "under a plan"
	Beyond    = "does not fit {budget}: {peak} as it is, and no plan goes below {floor}, set by {binds}"
)

// Word is a text of the answer under the name that Python has for it.
type Word struct{ Name, Text string }

// Words are the texts that all answers have in common. What stands in braces is filled in.
var Words = []Word{
	{"FORMAT", Format},
	{"LOAD", Load}, {"FIRST_STEP", FirstStep}, {"LATER_STEPS", LaterSteps},
	{"AS_IT_IS", AsItIs}, {"LOWEST_PLAN", LowestPlan},
	{"TOTAL", Total}, {"TAKES", Takes}, {"A_STEP", AStep}, {"LARGEST_BATCH", LargestBatch}, {"LONGEST_ROW", LongestRow},
	{"FITS", Fits}, {"FITS_NOT", FitsNot}, {"NONE", None},
	{"HEAD_PHASES", HeadPhases}, {"HEAD_LADDER", HeadLadder}, {"HEAD_TIMELINE", HeadTimeline},
	{"NO_BUDGET", NoBudget}, {"WHOLE", Whole}, {"UNDER", Under}, {"UNDER_PLAN", UnderPlan}, {"BEYOND", Beyond},
}

// Rung is a plan's rung of the ladder: the lowest plan of those that cost no more.
type Rung struct {
	Name string
	Most float64 // infinite for the lowest
}

// Limits are the limits of extra cost of a ladder.
var Limits = []float64{0, 0.05, 0.1, 0.3}

// Rungs are the rungs of plans within Limits, and of the lowest plan.
func Rungs() (rungs []Rung) {
	for _, most := range append(slices.Clone(Limits), math.Inf(1)) {
		name := fmt.Sprintf("%s%+.0f %%", planWithin, 100*most)
		switch {
		case most == 0:
			name = atNoCost
		case math.IsInf(most, 1):
			name = LowestPlan
		}
		rungs = append(rungs, Rung{name, most})
	}
	return rungs
}

// Fill is a text with names and what stands for them, in pairs.
func Fill(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
