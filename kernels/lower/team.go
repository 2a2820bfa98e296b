package lower

import (
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

// Team is how many invocations have a row, of how many in a group, and how many elements each of them holds.
type Team struct {
	Local, Size, Held, Lanes int
	Wide                     int // 4 if elements are by fours, else 1
}

// heldFloats is the most floats that an invocation holds of all operands: few enough that a processor has groups to turn to
// while one waits for memory.
const heldFloats = 32

// SmallTeam and largeTeam are the invocations of groups that have a row.
const SmallTeam, largeTeam = 256, 1024

// TeamOf chooses a team for rows of n elements that are inner apart; ok is false on devices without shared memory. It depends on
// the length of rows alone, so a row has the same bits whatever rows are beside it.
func TeamOf(l *graph.Lowering, n, inner, operands int, byFours bool) (t Team, ok bool) {
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
			t.Held = 0
		}
		return t, true
	}
	if holds(lanes) || holds(t.Local) {
		return t, true
	}
	if t.Local = group(largeTeam); !holds(t.Local) {
		t.Held = 0
	}
	return t, true
}

// Spec is the constants of team.glsl, with those of a kernel behind them.
func (t Team) Spec(more ...uint32) []uint32 {
	return append([]uint32{uint32(t.Local), uint32(t.Size), uint32(t.Held), uint32(t.Lanes)}, more...)
}

// Groups is the workgroups for some rows.
func (t Team) Groups(l *graph.Lowering, rows int) [3]int {
	return InLine(l, index.CeilDiv(rows, t.Local/t.Size))
}

// Of is the form of a kernel for the team's elements.
func (t Team) Of(kernels [2]*graph.Kernel) *graph.Kernel { return kernels[t.Wide/4] }
