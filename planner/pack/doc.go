// Package pack places lives in an arena.
//
// A [Problem] is a list of buffers. Each is alive during a half-open span of time [First, Last), has a size in bytes,
// and wants an offset that is a multiple of its alignment. A [Solution] is one offset a buffer, such that no two
// buffers alive at the same moment share a byte; its height is what the arena must hold. The bytes alive at the worst
// moment are a floor under every height ([MaxLive]), so a solution carries its own proof of how good it is:
//
//	p := pack.Problem{Buffers: []pack.Buffer{
//		{First: 0, Last: 3, Size: 4},
//		{First: 3, Last: 9, Size: 4},
//		{First: 0, Last: 9, Size: 4},
//	}}
//	s, err := pack.Solve(p) // Offsets: [4 4 0], Height: 8, Bound: 8
//
// The way from one to the other, a file a step:
//
//   - life.go reads the problem: buffers that are never alive or have no bytes take no room and leave the line here;
//     time shrinks to the sections in which the set of live buffers is largest.
//   - part.go splits it: what meets everything else goes to the bottom, and a moment at which nothing is alive cuts
//     the problem in two that share their addresses. What comes again is packed once.
//   - join.go puts together again what was cut up: pieces that leave nothing free, as in problems made to have a perfect
//     packing. Lives that must lie on top of each other or behind each other become one, as joinsums.go tells from their bytes, and
//     five that lie around each other, which pinwheel.go finds. What goes together with nothing was joined wrong, and is broken up
//     and joined again in another of the ways of joinways.go.
//   - nest.go packs parts of many lives that lie within each other, each on the highest below it, in hardly any time.
//   - alternate.go packs parts of many lives of which no three meet, such as chains: at the bottom and on top of that in turn.
//   - ring.go packs parts of many lives that begin and end in the same order, as behind a window that slides along.
//   - skyline.go packs parts of many lives from the bottom up, in time that hardly grows with how many lives meet; trees.go
//     is what it looks things up in. climb.go does it on one route all the way, or in many short stages, the more the more lives
//     meet, each on whichever of the routes of routes.go leaves all sections best off by scale.go: staged.go; changes.go brings
//     those that tried the other routes to where that has come. hands.go does things side by side. core.go packs the few lives
//     of many that are hard to place before the others, each peak for itself, and put.go puts those in, which sort.go has in
//     their order.
//   - walk.go packs many lives in the order of time, beside others that end when they do, and goes back a little where one finds no
//     room: where nearly all that there is room for is alive at all times, as in a heap under a cap, that is far lower than what is
//     packed from the bottom up. A short walk is tried for all else, too, as it is enough for what comes again and again in turns.
//   - clock.go says how long all this may take where there are many lives: it counts looks, so that no machine has another
//     packing, and what costs more than there is left is not begun.
//   - mend.go lowers such a packing where it is high only in places: it puts what sticks out where that drives out least.
//   - sift.go packs from its large lives, which it searches, what has few of them, and searches again with those that find no
//     room beside these.
//   - reach.go packs up to a capacity, soon or not at all, by the quick means and by sifting.
//   - large.go packs what is still too far above the bound from its large lives and puts the others in where they find room;
//     push.go makes room for those that find none, with what cells.go finds near each other, and shove.go where it takes more
//     than that; turn.go turns a packing upside down and lets it sink.
//   - strategy.go is the portfolio: a table of orders and fits, each of which places one buffer after another in
//     space.go, the addresses taken at each time. The lowest arena wins, the earlier row on a tie, and nothing more is
//     tried once the bound is reached.
//   - search.go is for parts of few lives that all strategies leave a gap in: a search from the bottom up that finds
//     perfect packings where there are some. It may take seconds for a capacity that is not reached without it, or for a
//     large gap; a gap of a percent is worth a twenty-fifth of that. Two run side by side, one for the bound alone and one
//     downward from what there is; what they may use up is counted, not timed, and beyond
//     a few hundred lives all parts share it. A capacity that a search shows to be out
//     of reach raises the bound.
//   - check.go is the truth, by another route than the packers: it believes nothing that Solve says.
//   - csv.go reads and writes the file format of the MiniMalloc benchmarks, id,lower,upper,size, and svg.go draws.
//
// To add a strategy, write its order or its fit and add a row to the table.
//
// A problem may say more than lives. A buffer can be fixed ([Fixed], fixed.go): an input that somebody else has placed, or a
// range that is reserved, as a buffer of its own. And one can take over the bytes of another in the moment in which that ends
// ([InPlace], inplace.go): Solve joins both into one where that helps. The planner, which knows what an operator may
// overwrite, joins such lives before it asks, and asks for nothing else; pairs are for those who do not, such as the users
// of memopt pack.
//
// The same problem has the same solution on any machine, and the order in which its buffers are listed does not change
// the height.
package pack
