package lower

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// TeamShader declares a kernel of rows that teams work on (team.glsl), for elements one by one and by fours.
func TeamShader(name, file string) [2]*graph.Kernel {
	return [2]*graph.Kernel{Halved(Shader(name, file, "-DV=float", "-DWIDE=1")), WideTeamShader(name+"-wide", file)}
}

// WideTeamShader declares such a kernel for elements by fours alone.
func WideTeamShader(name, file string) *graph.Kernel {
	return Halved(Shader(name, file, "-DV=vec4", "-DWIDE=4"))
}

// Team is how many invocations have a row, of how many in a group, and how many elements each of them holds in registers, and the
// group in shared memory.
type Team struct {
	Local, Size, Held, Lanes int
	Wide                     int  // 4 if elements are by fours, else 1
	Stored                   int  // elements in shared memory
	Rest                     bool // the row has more elements than registers hold
}

// heldFloats is the most floats that an invocation holds of all operands: few enough that a processor has groups to turn to
// while one waits for memory.
const heldFloats = 32

// SmallTeam and largeTeam are the invocations of groups that have a row.
const SmallTeam, largeTeam = 256, 1024

// teamRoom is what a group has in shared memory besides elements: a float of each subgroup, twice.
const teamRoom = 2 * 4 * largeTeam / 8

// teamGroups are the invocations of groups whose subgroups have a row each, and storing whether a long row is in shared memory
// as far as there is room: variants with the same bits. The first is the expected best.
var (
	teamGroups = []int{SmallTeam, 128, 64, 512}
	storing    = []string{"keeps", "reads-again", "registers"}
)

// TeamOf chooses a team for some rows of n elements that are inner apart; ok is false on devices without shared memory. How sums go depends on
// the length of rows alone, so a row has the same bits whatever rows are beside it.
func TeamOf(l *graph.Lowering, kernel string, rows, n, inner, operands int, byFours bool) (t Team, ok bool) {
	if t, ok = PlainTeam(l, n, inner, operands, byFours); !ok || inner > 1 || t.Size == t.Local && !t.Rest {
		return t, ok
	}
	class := fmt.Sprintf("%s of %d %d×%d", kernel, operands, SizeClass(rows), SizeClass(n))
	if !t.Rest {
		sizes, variants := map[string]int{}, []string{}
		for _, size := range teamGroups {
			if size >= t.Size && Fits(size, l.Limits.Invocations) {
				name := fmt.Sprint("rows-", size)
				sizes[name], variants = size, append(variants, name)
			}
		}
		t.Local = sizes[l.Pick(class, variants...)]
		return t, true
	}
	switch l.Pick(class, storing...) {
	case "reads-again":
		t.Held, t.Stored = 0, 0
	case "registers":
		t.Stored = 0
	}
	return t, true
}

// PlainTeam is the team that is expected to be the best.
func PlainTeam(l *graph.Lowering, n, inner, operands int, byFours bool) (t Team, ok bool) {
	lanes := l.Limits.Subgroup
	if !l.Limits.Shared || n == 0 {
		return t, false
	}
	group := func(size int) int {
		for !Fits(size, l.Limits.Invocations) {
			size /= 2
		}
		return max(size, lanes)
	}
	t = Team{Local: group(SmallTeam), Lanes: lanes, Wide: 1}
	if inner == 1 && n%4 == 0 && byFours {
		t.Wide = 4
	}
	holds := func(size int) bool {
		t.Size, t.Held = size, index.CeilDiv(n/t.Wide, size)
		return t.Held*t.Wide*operands <= heldFloats
	}
	if inner > 1 {
		t.Local = group(2 * lanes)
		if !holds(1) {
			t.Held, t.Rest = 0, true
		}
		return t, true
	}
	if holds(lanes) || holds(t.Local) {
		return t, true
	}
	if t.Local = group(largeTeam); !holds(t.Local) {
		t.Rest, t.Held = true, heldFloats/t.Wide/operands
		t.Stored = t.stores(l, n/t.Wide-t.Held*t.Size, operands)
	}
	return t, true
}

// stores is how many elements of n of each operand a group has room for in shared memory.
func (t Team) stores(l *graph.Lowering, n, operands int) int {
	return min(n, max(0, l.Limits.SharedBytes-teamRoom)/4/t.Wide/operands)
}

// WithoutRegisters is the team with what it keeps of a long row, of n elements, in shared memory alone.
func (t Team) WithoutRegisters(l *graph.Lowering, n, operands int) Team {
	if t.Held = 0; t.Stored > 0 {
		t.Stored = t.stores(l, n/t.Wide, operands)
	}
	return t
}

// Alone is the team with a row for each invocation of a small group, of which it keeps nothing.
func (t Team) Alone() Team {
	return Team{Local: min(t.Local, SmallTeam), Size: 1, Lanes: t.Lanes, Wide: t.Wide, Rest: true}
}

// specOfTeam is how many constants of a kernel come before the last ones of team.glsl.
const specOfTeam = 11

// Spec is the constants of team.glsl, with those of a kernel among them.
func (t Team) Spec(more ...uint32) []uint32 {
	spec := append([]uint32{uint32(t.Local), uint32(t.Size), uint32(t.Held), uint32(t.Lanes)}, more...)
	return append(append(spec, make([]uint32, specOfTeam-len(spec))...), uint32(t.Stored), OneIf(t.Rest))
}

// Groups is the workgroups for some rows.
func (t Team) Groups(l *graph.Lowering, rows int) [3]int {
	return InLine(l, index.CeilDiv(rows, t.Local/t.Size))
}

// Of is the form of a kernel for the team's elements.
func (t Team) Of(kernels [2]*graph.Kernel) *graph.Kernel { return kernels[t.Wide/4] }
