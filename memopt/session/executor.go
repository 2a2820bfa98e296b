package session

import (
	"context"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/weights"
)

// executor runs the programs of a session: the processor, in memory of the session, or a device in memory of its own. It is
// all that a session asks about where it runs.
type executor interface {
	// buffers makes buffers for inputs and outputs. direct reports whether any memory of the process is one already, so that
	// nothing has to be copied or imported.
	buffers() Buffers
	direct() bool

	// holds reports whether memory on the account is the executor's, not only the host's; reported is the owner that a
	// watch is told, "" where the executor counts its memory itself.
	holds(owner string) bool
	reported(owner string) string

	// keeps reports whether the session holds the content of a weight for the executor; lent is called for those that it
	// holds. Others are uploaded from their files.
	keeps(block *weights.Block) bool
	lent(v *graph.Value, x *graph.Tensor)

	// plan plans a program for sizes of dims and some results. planned is the cache of what it plans, of which mostPatterns
	// can be run at once by default.
	plan(ctx context.Context, p *program, dims map[string]int64, fetches []Fetch) (*pattern, error)
	planned() *recent[*pattern]
	mostPatterns() int

	// open makes a pattern ready for a run with inputs in places.
	open(t *pattern, known bool, fetches []Fetch, inputs map[string]Place) (*pattern, bool, error)
	// place is where a result goes that is bound to a buffer.
	place(x *execution, k int) (Place, error)
	// run runs the pattern of an execution. takes is the bytes that it takes: for outputs, which stay, and for everything
	// else; memory sets what the run was promised to take and what it took.
	run(x *execution) error
	takes(x *execution) (stay, pass int64)
	memory(x *execution, promised, measured *Memory)

	// evict frees the memory of the pattern that was not used for longest, if there are more than keep that hold any.
	evict(keep int) bool
	// shrink frees what no pattern but the last used one needs, and returns its bytes.
	shrink() int64
	stats(a arena.Stats) arena.Stats
}
