package planner

import "memopt/internal/graph"

// Form is what was chosen of a step before it was planned, by settings or for the sake of the plan: package forms fills
// it in. The zero Form is of a step that has no other.
type Form struct {
	// Whole is the step with all values whole, and Passes what was done to the forward graph that it was derived of.
	Whole  *graph.Graph
	Passes graph.Report
	// Taken are the rows of package forms that settings left open, and this form has.
	Taken []string
	// Settings make the form again: those that shaped the step, and what was chosen where they leave it open. Beside
	// are those that differ in the step that costs are compared with.
	Settings, Beside map[string]string
	// Kept are the values of which less is kept, and Rounded how many of them are rounded.
	Kept    []string
	Rounded int
}
