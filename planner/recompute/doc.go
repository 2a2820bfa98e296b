// Package recompute chooses what to rerun so that a program keeps within a limit of bytes.
//
// A [Problem] is a program in numbers: operators in the order of their first runs, what each costs, reads, writes and
// needs as work space, and which of them may be rerun. It knows no graph. An [Answer] is a list of launches, in which
// all but the first of an operator are reruns, with its exact peak, its extra cost, and a proven bound: no launches
// within the limit that begin the operators in this order have less extra cost.
//
// # The model
//
// A launch that writes a value makes an instance of it, and readers read the newest instance. The live range of an
// instance is from its launch to its last reader. A held value is read after the last operator, and always in its first
// instance. A value with Until is kept in its first instance until that operator has run. Work space is alive during its
// launch. The first output of an operator may lie over an input that is read last there (Over); it counts from the next
// launch on.
//
// A place is a position in the order, where one operator runs for the first time; the border is the first place of the
// backward pass. A plan is which values to drop before which places. Walking the order, an operator that reads a missing
// value has it recomputed right then, after what that reads in turn. So every set of drops is a plan, and the plan
// without drops is the plain program. A value that is not dropped is kept as long as something reads it.
//
// # Files
//
// Exact simulation:
//
//   - simulate.go, walk.go: the launches of a plan, the bytes alive at each, and the extra cost. Only places that read a
//     dropped value are looked at; the rest is copied from the order. 8 to 16 ns a launch (BenchmarkWalk).
//
// The search walks each change that it tries as a whole, or from the border on. An incremental trial, which walked only
// the places that a change touches and summed the differences, took 700 lines and saved no time over the corpus: it
// needed the chains of readers and the sums of each plan first.
//
// Bounds:
//
//   - cut.go, fold.go (and planner/flow): the minimum cut at one place at a price for bytes. Equal parts of the network, as
//     repeated layers make, are in it once. bound.go finds the best price, and rounds bytes to grains, which closes the
//     gap that equal layers leave.
//   - knapsack.go, choices.go (and planner/mixes): the cheapest values to have at one place, or at two together, to the
//     byte. deal.go makes plans of them.
//   - states.go, gates.go: a search from the end of the order over sets of up to 128 large values; for chains of layers its
//     launches are optimal. before.go: what runs before what that search sees. cases.go: each set of those that fits where
//     most binds.
//
// Plans to begin with:
//
//   - starts.go: what the cuts keep. Equal layers, of which a price keeps all or none, are divided.
//   - evict.go: online eviction, which finds plans close to the floor. hints.go is the table of what evictors are told to
//     keep. checkpoints.go: a dynamic program over a chain of links says which values between layers to keep where not
//     all fit. prefix.go: the first layers or steps are dropped as a whole.
//   - coarsen.go: the program without cheap operators is solved, and its plan carried over.
//
// Local search, from each of those:
//
//   - search.go: the moves, the methods that combine them, and exchange: keep a value that does not fit, and drop what is
//     cheaper to lose.
//   - repair.go: drop values at the peak until the plan is within the limit. restore.go: keep again what fits.
//   - anneal.go: changes at random, where a gap remains or there is no plan yet.
//
// passes.go is the table of all passes in running order, with the reasons for it. Its driver runs them for a limit until
// the plan is close to the bound or the table ends, takes times, signs the answer and, in tests, replays each better plan
// by Check. stages.go is what each pass does; solve.go is what may be asked of a limit. floor.go is the peak that no plan
// goes below; check.go replays launches by another route.
//
// # Why a bound is one
//
// At any place of the order some set of values is present. What is read later and not in the set must be rerun, with all
// that is missing for it, and a set with more bytes than the room does not fit. So the cheapest set that fits at a place
// costs no more than any plan does, and neither does the minimum over all sets of cost plus price times the bytes beyond
// the room (Lagrange), which is a cut. Reruns between two places and reruns after the second are different launches, so
// bounds on both add up.
//
// # What was left out
//
// Each of these was measured, one at a time and together, on recorded and zoo programs at up to nine limits each, and
// changed nothing, or other passes made up for it: following few values through places after the border (0.14 points of
// the bound of a LLaMA), adding up cuts along chains of places (nothing over the corpus at six budgets, and at fifteen of its shorter
// steps), large values against a cut of all others (4.9 points of the bound of a BERT 5 % above its
// floor), two cases of whole grains, knapsacks of parts of up to 32 values, keeping what passes on between equal
// stretches, a second thread, repairs that measure every change for every choice, dropping at once all that cuts do not
// keep, combining the sets of all places, and work that passes share
// (what starts took close to the floor was missing to evictors: 13 points of cost in all over the corpus).
//
// Bounds that are loose, close to the floor, rise by less than 0.1 points by one cut at up to eight places with a price
// for each and one cost for what is rerun after several; by sets of only the largest values; and by following only those
// from launch to launch. The linear program of up to 19 places, with what is present at one linked to the next, which no
// prices exceed, is above the cuts by nothing for ResNet-50 at 15 % and Inception at 5 %, 0.2 points for ResNet-50 at 5 %
// and a small ResNet at 30 %, and 0.5 for a GPT at 5 %, where plans cost 2 to 15 more. What is missing is the room that
// reruns need, or better plans.
//
// Shortest paths over all sets are exact for 16 values, and test the rest (exact_test.go).
//
// # References
//
// Prices on bytes and cuts: project selection (Picard 1976), Lagrangian relaxation; flow: Dinic 1970; rounding to
// grains: Chvátal and Gomory; chains of layers: Griewank and Walther's revolve, 2000, and Beaumont et al.'s rotor, 2019;
// eviction: dynamic tensor rematerialization (Kirisame et al. 2021); annealing: Kirkpatrick, Gelatt, Vecchi 1983.
//
// Nothing depends on the clock or on the number of cores: searches end by counted work. What is found for a limit does
// not depend on which others were asked for before. Asked for again, a limit has the bound that was proven, so its search
// may end earlier.
package recompute
