package pack

import "math"

// way is what is taken for sure. Ways are tried one after another, the surest first, each until it comes to nothing more.
type way struct {
	chance  float64 // that sums are the same for no reason: what is parted by sums less likely than that
	most    int     // joints of which all sums are looked at
	presume bool    // that a cut of few joints that nothing parts is whole
	half    bool    // whether joints of the same span belong together if one of their cuts is whole
	ties    int     // or if neither is, with as many joints at one cut times those at the other
}

// sure is the chance below which nobody doubts that sums are the same for a reason.
const sure = 0.01

// quick are ways for lives of which few meet by chance at the same moment.
var quick = []way{
	{chance: sure, most: 6},
	{chance: sure, most: 6, presume: true},
	{chance: sure, most: 6, presume: true, half: true},
	{chance: sure, most: 8, presume: true, half: true},
	{chance: 0.1, most: 8, presume: true, half: true},
	{chance: 0.5, most: 8, presume: true, half: true},
	{chance: 2, most: 8, presume: true, half: true},
	{chance: 2, most: 8, presume: true, half: true, ties: 400},
	{chance: 2, most: 8, presume: true, half: true, ties: 1600},
	{chance: 2, most: 8, presume: true, half: true, ties: math.MaxInt},
}

// careful are ways for those of which many do.
var careful = []way{
	{chance: sure, most: 6},
	{chance: sure, most: 6, presume: true},
	{chance: sure, most: 8, presume: true},
	{chance: sure, most: 10, presume: true},
	{chance: sure, most: 10, presume: true, half: true},
	{chance: 0.1, most: 10, presume: true, half: true},
	{chance: 0.5, most: 10, presume: true, half: true},
	{chance: 2, most: 10, presume: true, half: true},
	{chance: 2, most: 10, presume: true, half: true, ties: 400},
	{chance: 2, most: 10, presume: true, half: true, ties: 1600},
	{chance: 2, most: 10, presume: true, half: true, ties: math.MaxInt},
}

// wary are ways for those that were joined wrong before.
var wary = append([]way{{chance: sure / 10, most: 8}, {chance: sure, most: 8}}, careful[2:]...)

// rejoined is how many levels deep what is joined is broken up, and the ways in which it is joined again.
var rejoined = [...]struct {
	levels int
	ways   []way
}{
	{2, quick}, {1, wary}, {3, wary}, {1, quick}, {2, careful},
	{4, wary}, {2, wary}, {1, careful}, {3, quick}, {5, wary},
}
