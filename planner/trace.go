package planner

import (
	"time"

	"memopt/memopt/graph"
)

// Run is what a device is given for one step.
type Run struct {
	Inputs map[string]*graph.Tensor // by name; copied to the staging space
	Seed   uint64
	Step   uint64 // keys the counter of random operators, with Seed
	// Accumulate leaves out the launches of the update phase: this run only
	// adds to the gradients.
	Accumulate bool
	// Times asks for Trace.Launches.
	Times bool
}

// Trace is what happened in one step.
type Trace struct {
	Took time.Duration
	// Arena, State and Staging are the bytes that launches really used, from
	// each space's start to the last byte touched.
	Arena, State, Staging int64
	// Workspace is what operators work in besides, in no plan.
	Workspace int64
	// Launches is the time of each, in the schedule's order, if asked for.
	Launches []time.Duration
}
