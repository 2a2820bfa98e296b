package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"memopt/memopt/report"
)

// WholeRow is `memopt plan` as a whole: its process reads a model, derives the forms of its step
// that are worth it, plans, and prints the plan.
type WholeRow struct {
	Layers int `json:"layers"`
	Nodes  int `json:"nodes"`
	Clock      // Heap is the process's peak memory
}

// wholeSizes lists GPTs whose steps have about 1,000, 20,000 and 90,000 nodes, and the milliseconds
// of CPU time that planning may take.
var wholeSizes = []struct {
	layers int
	bar    float64
}{{13, 150}, {270, 500}, {1220, 1500}}

// longWhole is the number of layers from which on quick runs skip a model.
const longWhole = 1000

var nodesOf = regexp.MustCompile(`: (\d+) nodes`)

func (b *plannerBench) whole() error {
	folder, err := os.MkdirTemp("", "memopt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, size := range wholeSizes {
		if b.o.Quick && size.layers >= longWhole {
			continue
		}
		b.says("memopt plan of %d layers", size.layers)
		model := filepath.Join(folder, "gpt.onnx")
		if _, _, err := runSelf(b.o.Binary, "new", "gpt", "-o", model, "--layers", strconv.Itoa(size.layers), "--width", "16", "--heads", "2", "--vocab", "64", "--positions", "64"); err != nil {
			return err
		}
		row := WholeRow{Layers: size.layers, Clock: Clock{MS: math.Inf(1), CPUMS: math.Inf(1)}}
		for range b.rounds {
			begin := time.Now()
			out, state, err := runSelf(b.o.Binary, "plan", model, "--dims", "batch=8,seq=64", "--budget", "50%")
			if err != nil {
				return err
			}
			row.MS = min(row.MS, float64(time.Since(begin).Microseconds())/1000)
			row.CPUMS = min(row.CPUMS, float64((state.UserTime()+state.SystemTime()).Microseconds())/1000)
			row.Heap = max(row.Heap, mostMemory(state))
			if at := nodesOf.FindSubmatch(out); at != nil {
				row.Nodes, _ = strconv.Atoi(string(at[1])) // digits
			}
		}
		met := row.CPUMS <= size.bar
		row.BarMS, row.Met = size.bar, &met
		b.report.Whole = append(b.report.Whole, row)
	}
	return nil
}

// runSelf runs a command of this executable.
func runSelf(binary string, args ...string) (out []byte, state *os.ProcessState, err error) {
	if binary == "" {
		return nil, nil, fmt.Errorf("memopt %s: no binary to run", args[0])
	}
	c := exec.Command(binary, append(args, "-q")...)
	var said bytes.Buffer
	c.Stderr = &said
	if out, err = c.Output(); err != nil {
		return nil, nil, fmt.Errorf("memopt %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return out, c.ProcessState, nil
}

// wholeText writes the rows as a table.
func wholeText(w io.Writer, rows []WholeRow) {
	fmt.Fprintln(w, "memopt plan as a whole: the time and the most memory of its process, GPT of a width of 16 under half its memory")
	table := [][]string{{"layers", "nodes", "ms", "CPU ms", "memory", "bar", ""}}
	for _, row := range rows {
		table = append(table, []string{strconv.Itoa(row.Layers), report.Thousands(int64(row.Nodes)), fmt.Sprintf("%.0f", row.MS), fmt.Sprintf("%.0f", row.CPUMS),
			report.Bytes(row.Heap), fmt.Sprintf("≤ %.0f ms of CPU", row.BarMS), verdict(*row.Met)})
	}
	report.Table(w, "rrrrrll", table)
	fmt.Fprintln(w)
}
