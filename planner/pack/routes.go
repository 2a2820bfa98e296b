package pack

import "math/rand/v2"

// route is how a skyline chooses.
type route struct {
	variety int     // how many lives of each group to look at for a place
	length  float64 // what it is worth that a life is long, against sections that are left beside it
	ease    float64 // how ready it is to fill up what is nearly even
	aim     int64   // the share of the goal above it that it tries to stay within
	focus   float64 // the share of the ceiling that a section may have to spare and weigh half of one that has none; 0: all weigh the same
}

var (
	// neat is the route for what can be packed with next to no loss, which is given up when it loses more.
	neat = route{16, 1, 0, 256, 0}

	// wholes are the routes that go all the way.
	wholes = [...]route{
		{16, 1, 1, 256, 0.003},
		{16, 1, 2, 256, 0.01},
	}

	// plain is the route for what does not matter much.
	plain = route{16, 1, 1, 512, 0.003}

	// known are the routes that are tried for stages of a climb, and others like them.
	known = [...]route{
		{16, 3, 0.1, 512, 0.01},
		{32, 1, 0.375, tight, 0.003},
		{32, 3, 0.75, tight, 0.003},
		plain,
		{8, 1, 3, 512, 0.003},
		{32, 0.3, 0.375, 512, 0.003},
		{8, 3, 0.125, 256, 0.001},
		{16, 3, 0.375, 512, 0.003},
		{16, 0.3, 3, tight, 0.001},
	}
)

// scout says which routes are tried for a stage: known ones in turn, and such as lead away from these and from those that did best
// in the last stages.
type scout struct {
	climbs int // begun
	turn   int // which of the known comes next
	best   []route
	dice   rand.PCG
}

const (
	asKnown    = 2 // routes of a stage are known ones
	remembered = 8 // of the routes that did best
)

// moreOrLess is how far a route leads away from another, those near by more often than others.
var moreOrLess = [...]float64{0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4}

// afresh has s go on as in no climb before.
func (s *scout) afresh() {
	s.climbs++
	s.turn = s.climbs
	s.dice.Seed(uint64(s.climbs), 0)
}

// routes adds n routes for a stage.
func (s *scout) routes(routes []route, n int) []route {
	r := rand.New(&s.dice)
	for k := range n {
		t := known[s.turn%len(known)]
		s.turn++
		if k >= asKnown {
			if k%2 == 0 && len(s.best) == remembered {
				t = s.best[r.IntN(remembered)]
			}
			t.length *= moreOrLess[r.IntN(5)+r.IntN(5)]
			t.ease *= moreOrLess[r.IntN(5)+r.IntN(5)]
		}
		routes = append(routes, t)
	}
	return routes
}

// took is for the route that did best in a stage.
func (s *scout) took(r route) {
	if len(s.best) == remembered {
		s.best = append(s.best[:0], s.best[1:]...)
	}
	s.best = append(s.best, r)
}
