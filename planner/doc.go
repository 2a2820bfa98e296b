// Package planner decides what to keep, what to compute again, in which order to run and where each value lives.
//
// # The problem
//
// A training step keeps what its forward pass makes until the backward pass has read it. Some of that can be dropped
// and computed again from what is kept, for time. Given a step, sizes of its dims and a limit of bytes, the planner
// looks for the list of launches that costs least and fits, and for places of its values in one arena. With a limit of
// cost instead, it looks for the lowest arena.
//
// # The line
//
// Make plans, in this order; each is one file unless others are named:
//
//   - model.go binds the dims, and takes the names off the step: operators and values as planner/recompute has them, with
//     their bytes, work space and prices (costs.go), worked out once for those that are alike (planner/operators).
//     replace.go says which may run again. A model does not change once it is priced.
//   - look.go looks at a request: what everything kept takes, and what any plan costs at least.
//   - search.go turns on what settings ask for by name, level or cluster (offers.go), and calls a strategy from its
//     table. Fixed strategies turn nodes on that then run before the first backward step that needs them. The one for
//     limits asks planner/limits (budget.go).
//   - planner/limits answers limits of the arena so that less memory never costs less.
//   - solver.go finds plans within a limit: planner/recompute solves it, and if what is placed is higher than the limit,
//     lower limits are tried, six at most.
//   - simulate.go derives every life from a list of steps, summary.go has planner/pack place them and sums up, and
//     topunit.go uses the last bytes of a capacity that is no multiple of the alignment. The plan table (rows.go,
//     extracts.go) is more of the same simulation.
//   - evidence.go has the floor, the bound and the gap of a plan; passes.go signs it: Plan.Search says which pass made
//     the choice, which placed it, what each tried and took. Request.Without leaves passes out, to measure them.
//   - checked.go holds the plan against the graph. That shares nothing with the model but what a single operator says:
//     planner/launch works out bytes, work space and who reads what last from shapes and operators, and makes launches of
//     that with the steps and places; planner/check replays these on a picture of memory, and holds all figures against
//     what it finds. A device gets the very list that was checked.
//
// A Plan carries its evidence, can be saved and read (planner/planfile, restore.go), drawn (picture.go), exported as a graph or
// as an edit of the file that the graph was read from (planner/rewrite).
//
// # The model
//
// Time is the list of steps; a node is in it once, and once more each time that it runs again. An instance is the bytes
// of one value that is not a view, as one step wrote them. It lives from that step to the last that reads it or a view
// of it; later readers read the next instance. Parameters, optimizer states, constants and the fed inputs live outside
// the arena, for the whole run.
//
// A node that runs again does so right before a step that needs it; what it needs in turn is made again too, or else
// kept until then. The peak is exact: every life is counted at every step, with work space, with results written over
// inputs that die (graph.Op.InPlace), and with views as no bytes. What is held outside the graph (graph.Hold) stays
// where it was first made until it is let go; nothing is made again for that reader. Where the step runs under an
// allocator of its own, lives have no places, and the arena is the peak.
//
// Cost is flops and bytes moved on one scale (a node moves what it reads, or of that what it picks, and what it writes;
// a view nothing), or what Request.Costs says that nodes take on a device.
//
// # Why less memory never costs less
//
// What a search finds for a limit is chance to some degree. So plans are found for a fixed grid of limits, and a limit
// gets the cheapest of those of all grid limits up to it: a minimum over more plans is no higher. Bounds of
// planner/recompute tell at which grid limits nothing cheaper can be found, so that few are solved. What is between two
// grid limits, and below the lowest, is answered by rules that keep that order (planner/limits); TestLimits holds them
// against searches that find anything at all.
//
// # Chains
//
// Plan.Chained is a schedule in which pointwise launches that share what they read or make are one launch
// (planner/chains). It comes behind all decisions and touches none: places and arena are the plan's, and any launch can
// run alone or in a chain, to the same bits. Check's replay holds for it too.
//
// # Other sizes, other questions
//
// Formulas says what a plan's decisions need at other sizes of the dims: the peak is the largest of a few formulas, each
// of them from one size to another, as long as the same results may be written over the same inputs (planner/formulas).
// Frontier is the plans at every height, with what others would do on the
// same axes; the points of long programs are sketches. Largest turns the question round and asks which size fits a
// budget (largest.go, validsizes.go); Advise asks that for a budget that does not.
//
// A step may be another form of a plain one, with the same results for other bytes and flops. Request.Plain has what
// its plans' costs relative to that, and Curve.Join puts both on one curve.
//
// Methods and references are in the comments of planner/recompute and planner/pack.
package planner
