// Package planner decides what to keep, what to compute again, in which order
// to run and where each value lives.
//
// Make is the whole of it: it binds the dims of a training graph, finds the
// clusters, lets a strategy choose which forward nodes run again, and places
// every life in one arena. The result, a Plan, carries its evidence: peak and
// peak node before and after, extra cost, floor, the formula of the peak.
// Rewrite is a plan as a graph, RewriteOutline as an edit of the file that the
// graph came from. Check replays a plan by another route. Plan.Schedule flattens it for a
// device: launches and offsets, nothing left to decide.
//
// # The model
//
// Time is the list of steps; a node is in it once, and once more each time that
// it runs again. An instance is the bytes of one value that is not a view, as one
// step wrote them. It lives from that step to the last that reads it or a view of
// it; later readers read the next instance. Parameters, optimizer states, constants and the fed inputs
// live outside the arena, for the whole run.
//
// A node that runs again does so right before a step that needs it; what it
// needs in turn is made again too, or else kept until then.
// The peak is exact: every life is counted at every step, with work space, with
// results written over inputs that die (InPlace), and with views as no bytes.
// What somebody outside the graph holds (graph.Hold) stays where it was first made until he
// lets it go; nothing is made again for him. Where whoever runs the step has an allocator of
// his own, lives have no places, and the arena is the peak.
//
// # Strategies
//
// A strategy is a function and a row in the table of strategies.go. It returns
// steps; it does not know of offsets. Fixed ones turn on nodes that then run
// again before the first backward step that needs them. A budget is a problem
// for planner/recompute, which may run a node any number of times. It is met by
// placement, not by estimate: if the arena is higher than the budget the limit
// is lowered and the solver asked again. Less memory never costs less: plans are picked
// from some that do not depend on the budget, what is found at fixed shares of the plain
// arena and between them (rungs.go), and of programs of few operators and bytes a whole
// frontier (small.go). Below the lowest share that has a plan there is what a descent from
// that to the floor comes to (lowest.go).
//
// Programs of repeated layers have few different nodes: what follows from
// operator, attributes and shapes is worked out once for those that are alike
// (alike.go).
//
// # Chains
//
// Plan.Chained is a schedule in which pointwise launches that share what they read
// or make are one launch (chains.go). It comes behind all decisions and touches
// none: places and arena are the plan's, and any launch can run alone or in a
// chain, to the same bits. Check's replay holds for it too.
//
// # Other sizes, other questions
//
// A plan's decisions can be replayed at other sizes of the dims (Resize), and
// Formulas says what they need there: the peak is the largest of a few formulas,
// each of them from one size to another, as long as the same results may be
// written over the same inputs. Frontier is the plans at every height, with what
// others would do on the same axes; the points of long programs are sketches. Largest turns the question round and asks
// which size fits a budget; Advise asks that for a budget that does not.
//
// A step may be another form of a plain one, with the same results for other
// bytes and flops. Request.Plain has what its plans cost told beside that, and
// Curve.Join puts both on one curve.
//
// Cost is flops and bytes moved on one scale (a node moves what it reads, or of
// that what it picks, and what it writes; a view nothing), or what Request.Costs says that
// nodes take on a device.
package planner
