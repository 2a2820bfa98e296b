package bench

import (
	"fmt"
	"io"
	"math"

	"memopt/memopt/report"
)

// Text writes the report as a table for people.
func (r *Report) Text(w io.Writer) {
	table := [][]string{{"group", "case", "threads", "ours", "rival", "", "ratio", "bar", ""}}
	met, judged := 0, 0
	for _, row := range r.Rows {
		line := []string{row.Group, row.Name, fmt.Sprint(row.Threads), row.rate(row.Here), "", row.Rival.Name, "", row.Bar.String(), ""}
		if row.There != (Figure{}) {
			line[4], line[6] = row.rate(row.There), fmt.Sprintf("%.2f", row.Ratio)
			if row.Bar.judges() {
				judged++
				line[8] = verdict(row.Met)
				if row.Met {
					met++
				}
			}
		}
		table = append(table, line)
	}
	report.Table(w, "llrrrlrll", table)
	fmt.Fprintf(w, "\n%d of %d bars are met. The quickest rounds count: CPU time on one thread, wall time on more.\n", met, judged)
	for _, p := range r.Peers {
		fmt.Fprintf(w, "%s is %s\n", p.Name, p.Version)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "no %s: %s; %s\n", m.Name, m.Why, m.Advice)
	}
}

// rate is a figure as work in a second, or as time where a step is all that is
// done.
func (r Row) rate(f Figure) string {
	t := r.clock(f)
	switch r.Unit {
	case "step":
		return fmt.Sprintf("%.3g ms", t*1e3)
	default:
		return fmt.Sprintf("%.3g G%s/s", r.Work/t/1e9, r.Unit)
	}
}

// File is the report as JSON.
type File struct {
	Format  string    `json:"format"`
	Bench   string    `json:"bench"`
	Rows    []FileRow `json:"rows"`
	Peers   []Found   `json:"peers"`
	Missing []Missing `json:"missing"`
}

// FileRow is a row in it. Seconds are of one step; what counts is named by
// clock. Rival is absent if it is not there.
type FileRow struct {
	Group   string    `json:"group"`
	Case    string    `json:"case"`
	Threads int       `json:"threads"`
	Work    float64   `json:"work"`
	Unit    string    `json:"unit"`
	Clock   string    `json:"clock"`
	Ours    FileSide  `json:"ours"`
	Rival   *FileSide `json:"rival,omitempty"`
	Ratio   float64   `json:"ratio,omitempty"`
	Bar     FileBar   `json:"bar"`
	Met     *bool     `json:"met,omitempty"`
}

// FileSide is one side's seconds.
type FileSide struct {
	Name   string  `json:"name"`
	Wall   float64 `json:"wall_s"`
	CPU    float64 `json:"cpu_s"`
	Median float64 `json:"median_wall_s"`
}

// FileBar is a bar; one of both is there.
type FileBar struct {
	Speed float64 `json:"speed_at_least,omitempty"`
	Time  float64 `json:"time_at_most,omitempty"`
}

// File converts the report.
func (r *Report) File() File {
	f := File{Format: "memopt.bench/1", Bench: r.Bench, Rows: []FileRow{}, Peers: append([]Found{}, r.Peers...), Missing: append([]Missing{}, r.Missing...)}
	for _, row := range r.Rows {
		out := FileRow{Group: row.Group, Case: row.Name, Threads: row.Threads, Work: row.Work, Unit: row.Unit, Clock: "wall",
			Ours: fileSide("memopt", row.Here), Bar: FileBar{row.Bar.Speed, row.Bar.Time}}
		if row.Threads == 1 {
			out.Clock = "cpu"
		}
		if row.There != (Figure{}) {
			rival := fileSide(row.Rival.Name, row.There)
			out.Rival, out.Ratio = &rival, finite(row.Ratio)
			if row.Bar.judges() {
				out.Met = &row.Met
			}
		}
		f.Rows = append(f.Rows, out)
	}
	return f
}

func fileSide(name string, f Figure) FileSide { return FileSide{name, f.Wall, f.CPU, f.Median} }

// finite keeps a ratio of times that no clock could tell from zero out of JSON.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	return x
}
