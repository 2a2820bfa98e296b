// Package recompute chooses what to run again so that a program keeps within
// a limit of bytes.
//
// A [Problem] is a program in numbers: operators in the order in which they
// run for the first time, what each costs, reads, writes and needs as work
// space, and which of them may run again. It knows no graph. An [Answer] is a
// list of launches, in which what stands a second time runs again, with its
// exact peak, its extra cost, and a proven bound: no list of launches within
// the limit that begins its operators in this order has less extra cost.
//
// # The model
//
// A launch that writes a value makes an instance of it, and readers read the
// newest one. An instance is alive from its launch to its last reader. A held
// value is read to the end, and always in its first instance. One that stays up to an operator
// (Until) is there until that has run first, in its first instance, whoever reads it; then it
// is like others. Work space is alive at its launch. The first
// value that an operator writes may lie over one that it reads and that dies
// there (Over): it counts from the next launch on.
//
// A plan is what to forget when: events (place, value). Walking the order, an
// operator that wants a forgotten value has it made again right then, and what
// making it needs in turn. Whatever is there stays as long as somebody reads
// it, so a plan that forgets nothing is the plain program, and every set of
// events is a plan.
//
// # The line
//
// Exact simulation:
//
//   - simulate.go, walk.go: the launches, the bytes alive at each and the extra cost of a plan.
//     Only places that read something forgotten are looked at; between them launches are copied
//     from the order. 8 to 16 ns a launch (BenchmarkWalk).
//   - trial.go: the same after one change of the plan that was walked last. Only places at which
//     a value is there in one plan and not in the other are walked anew. 1 to 4 ns a launch of
//     long plans; of short plans that make much again, as long as a walk.
//
// Bounds:
//
//   - cut.go, flow.go, fold.go: the minimum cut at one place at a price for bytes. Equal parts of
//     the network, as repeated layers make, stand in it once. bound.go finds the best price and
//     rounds bytes to grains, which closes the gap that equal layers leave.
//   - knapsack.go, choices.go, mixes.go: the cheapest values to have at one place, or about those
//     at two places together, to the byte.
//   - stretch.go: chains of places. tight.go, gates.go: a search from the end of the order on
//     over sets of up to 128 large values; on chains of layers its launches are optimal.
//     cases.go: each set of those that fits where most binds.
//
// Plans to begin with:
//
//   - starts.go: what the cuts keep. Equal layers, of which a price keeps all or none, are divided.
//   - evict.go: online eviction. It walks the order with a limit of bytes and forgets the value
//     that is worth least when something does not fit. It finds plans close to the floor.
//   - checkpoints.go: a dynamic program over a chain of links, which tells evictors what to keep
//     between layers where not all of that fits.
//   - prefix.go: the first layers or steps are forgotten as a whole; evictors do the rest.
//   - coarsen.go: the problem without cheap operators is solved, and its plan carried over.
//
// Local search, from each of those:
//
//   - search.go: stages with work of their own, and exchanges: keep something that does not fit,
//     and forget what is cheaper to lose.
//   - repair.go: at the peak, forget what takes most bytes off for the least cost, until the plan
//     is within the limit. restore.go: keep again what turned out to fit.
//   - anneal.go: changes at random, where a gap stays, or where there is no plan yet.
//
// passes.go is the table of all passes in running order, with the reasons for it. A driver
// runs it for a limit until the plan is near the bound or the table ends, takes times, signs
// the answer and, in tests, replays each better plan with Check. stages.go is what each pass
// does; solve.go is what may be asked of a limit. floor.go is the peak that no plan goes
// below; check.go replays launches by another route.
//
// # Why a bound is one
//
// At any place of the order some set of values is there. What is read later and not in the set
// must run again, with all that is made of, and a set with more bytes than the room does not
// fit. So the cheapest set that fits at a place costs no more than any plan does, and neither
// does the minimum over prices of cost plus price times bytes beyond the room (Lagrange), which
// is a cut. Operators that must run again between two places and those that must behind the
// second are different launches, so bounds of both add up.
//
// # What was left out
//
// Each of these was measured, one at a time and together, on recorded and zoo programs at up to
// nine limits each, and others made up for it or it moved nothing: following few values through
// places behind the border (0.14 points of the bound of a LLaMA), large values against a cut of all others
// (4.9 points of the bound of a BERT 5 % above its floor), splitting into two cases of whole
// grains, knapsacks of parts of up to 32 values, keeping what goes on between equal stretches,
// a second thread, repairs that measure every change for every choice, forgetting at once all
// that cuts do not keep, work that passes share (what starts took near the floor was missing to
// evictors: 13 points of cost in all over the corpus).
//
// Where bounds are loose, close to the floor, these raise them by less than 0.1 points: one cut at
// up to eight places with a price for each, and one cost for what runs again behind several; sets
// of only the largest values; following only those from launch to launch. The linear program of
// up to 19 places, with what is there at one linked to the next, which no prices get above, is
// above the cuts by nothing for ResNet-50 at 15 % and Inception at 5 %, 0.2 points for ResNet-50
// at 5 % and a small ResNet at 30 %, and 0.5 for a GPT at 5 %, where plans cost 2 to 15 more. What
// is missing is the room that is needed while something runs again, or are better plans.
//
// Shortest paths over all sets are exact for 16 values, and test the rest (exact_test.go).
//
// # References
//
// Prices on bytes and cuts: project selection (Picard 1976), Lagrangian relaxation; flow: Dinic
// 1970; rounding to grains: Chvátal and Gomory; chains of layers: Griewank and Walther's
// revolve, 2000, and Beaumont et al.'s rotor, 2019; eviction: dynamic tensor rematerialization (Kirisame et al. 2021); annealing:
// Kirkpatrick, Gelatt, Vecchi 1983.
//
// Nothing depends on the clock or on the number of cores: searches end by counted work. What is
// found for a limit does not depend on which others were asked for before. Asked for again,
// a limit has the bound that was proven, so its search may end earlier.
package recompute
