// Package pack places buffers in an arena.
//
// # The problem
//
// A [Problem] is a list of buffers. Each is alive during a half-open span of moments [First, Last), has a size in bytes,
// and needs an offset that is a multiple of its alignment. A [Solution] gives each buffer one offset such that no two
// buffers that are alive at the same moment share a byte. Its height is the size of the arena. Finding the lowest height
// is dynamic storage allocation, which is NP-hard. No height is below the most bytes alive at once ([MaxLive]), so a
// solution comes with a bound that says how good it is:
//
//	p := pack.Problem{Buffers: []pack.Buffer{
//		{First: 0, Last: 3, Size: 4},
//		{First: 3, Last: 9, Size: 4},
//		{First: 0, Last: 9, Size: 4},
//	}}
//	s, err := pack.Solve(p, pack.Effort{}) // Offsets: [4 4 0], Height: 8, Bound: 8
//
// # The method
//
//  1. liverange.go turns buffers that take room into live ranges, and compresses time to sections: stretches of time in
//     which no range begins after another has ended. Two ranges overlap in sections exactly if they overlap in time.
//  2. part.go puts ranges that overlap every other at the bottom and splits the rest where nothing is alive. Each part has
//     all addresses to itself. Equal parts are packed once.
//  3. passes.go is the table of passes, in running order with the reasons for the order. A pass runs on each part that is
//     still above its limit, and a part that it lowers is signed with its name. The limit is the bound, or the capacity if
//     there is one; without one, a part of more than 2,000 ranges may end 1/256 above the bound.
//  4. check.go decides by another route whether a solution is valid: it sweeps through time over rectangles of moments and
//     bytes. Tests have it check every packing of every pass.
//
// To add a pass, write its file and a row of the table. [Effort].Without leaves passes out, which shows what each earns.
//
// Words: a range's top is its offset plus its size; the top of a part is its highest; an address is a byte of the arena.
// Looks count the work of a pass in a unit that is the same on every machine.
//
// # Why it works
//
// In a training step what is made early is read late, so live ranges nest, and placing them by size at the lowest offset
// that is free ends within a fraction of a percent of the bound (J. Pisarchyk and J. Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020: orders). Convolution nets leave wide holes to any such order. A skyline looks at the
// lowest valley only and rates each range by what it would waste there, in time that hardly depends on how many ranges
// overlap. Problems with few large ranges are packed from those (largefirst). A packing that is too high in few places is
// mended by ejection (eject; Y. Nagata and O. Bräysy, 2009). The exact search builds canonical packings, in which every
// range lies on the floor or on another, by rising offset (M. D. Moffitt, "MiniMalloc", ASPLOS 2023); it restarts often
// and puts first what overlaps the sections in which earlier runs failed. A run that comes to its end without a packing
// proves that there is none, which raises the bound.
//
// The same problem has the same solution on any machine: work is counted in looks, not in seconds, and products are
// rounded before they are summed. The order in which buffers are listed does not change the height. The only goroutine
// is in search.go: one search looks for a packing at the bound while another lowers the top step by step. Each has its own
// looks, and a packing at the bound wins whatever the other has found.
//
// # What was tried and left out
//
// Measured on the plans of recorded training steps and of the zoo at six budgets, google/minimalloc's eleven instances, and
// traces of MindSpore and of a contest with up to 62,000 buffers. The following together met 2 budgets of 711 that the
// passes above miss, against 36 the other way round, and lowered one recorded step, Inception at its tightest budget, by
// 0.25 %: skylines in many short stages, each on the best of several settings; packing the ranges of the fullest moments
// first; packing in the order of time with backtracking; joining pieces that were cut from a perfect packing; pushing
// ranges up and down, and ejecting what blocks that; turning a packing upside down; chains placed at the bottom and the top
// alternately. Two passes in linear time, each range on the highest below it and ranges around a ring, lowered nothing
// recorded and saved 12 ms on a step of 100,000 ranges. Without all of these, 20,000 ranges of random shapes end
// 1 to 4 % above the bound instead of 1 %, and problems cut from a perfect packing 20 to 50 %. Hill climbing over orders
// ends 8 to 31 % above the bound on google/minimalloc's instances, where the search reaches it.
package pack
