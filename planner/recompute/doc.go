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
//   - simulate.go counts every byte of a plan that walk.go walks. Only launches at
//     places that want something forgotten look at what they read, so that takes 8
//     to 11 ns a launch of a GPT of 48 layers, and up to 16 where few hundred
//     launches make much again (BenchmarkWalk).
//     trial.go tells what one change makes of a plan that was walked: it walks
//     only the places where something is there now and was not before, or the
//     other way round, and sweeps over what is alive between them. The search
//     asks thousands of such questions. Of long plans they take 1 to 4 ns a
//     launch; of a short one that makes much again, as long as a walk.
//   - cut.go asks what to have at one place of the order, at a price for bytes:
//     one minimum cut (flow.go) of a network in which what is equal, as repeated
//     layers are, stands once (fold.go). What it finds at a price does for every
//     limit, and is remembered. bound.go looks for the best price, and rounds
//     bytes to grains, which closes the gap that equal layers leave.
//   - knapsack.go says to the byte what is cheapest to have at a place, or about what at two
//     places together, as transformers need, whose peaks right behind the border are near each
//     other. That raises the bound, and what is chosen makes plans. choices.go lists what to
//     choose of each part, mixes.go chooses of all by prices and a knapsack.
//   - stretch.go raises the bound by several places together, and by what must run again up
//     to a place and what does behind it, where that is known.
//   - tight.go raises it from the end of the order on, as far as few large values
//     are in question, by what may be there from launch to launch. On chains that
//     finds the cheapest launches, too. gates.go tells it what is ahead, from
//     the places where fewest sets of values fit.
//   - cases.go raises it, close to the floor, by each set of large values that fits where most
//     binds, and what then must run again twice. Evictors that keep such a set make plans.
//   - repair.go forgets, at the peak, what takes most bytes off for the least
//     cost; takeback.go remembers what turned out to fit.
//   - starts.go makes plans to begin with of what the cuts keep. Equal layers,
//     which a price takes all or none of, are divided by a mixture.
//   - evict.go walks the order once and forgets what does not fit, which finds
//     plans close to the floor, where what cuts keep fits only at their places.
//   - treeverse.go has them keep what goes on between layers at few places at a time, where
//     not all of that fits, as is cheapest for chains.
//   - leading.go forgets the first layers or steps, but for what goes on from them, and
//     keeps of the others what a cut would; evictors do the rest.
//   - anneal.go changes a plan at random, and goes on from dearer ones and such as are
//     over the limit for a while, where all of that leaves a gap.
//   - lean.go looks for a plan of a program without what is cheap, where a gap stays,
//     and goes on from that.
//   - passes.go is the table of all passes in running order, with the reasons for it. A driver
//     runs it for every limit until the plan is near the bound or the work is done, takes times,
//     signs the answer and, in tests, replays each better plan with Check. stages.go is what
//     each pass does. solve.go is what may be asked of a limit.
//   - floor.go is the peak that no plan goes below; check.go replays launches by
//     another route.
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
// a second thread.
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
// revolve, 2000; eviction: dynamic tensor rematerialization (Kirisame et al. 2021); annealing:
// Kirkpatrick, Gelatt, Vecchi 1983.
//
// Nothing depends on the clock or on the number of cores: searches end by counted work. What is
// found for a limit does not depend on which others were asked for before. Asked for again,
// a limit has the bound that was proven, so its search may end earlier.
package recompute
