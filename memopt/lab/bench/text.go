package bench

import (
	"fmt"
	"io"
	"math"
	"strings"

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
		threads := fmt.Sprint(p.Threads)
		fmt.Fprintf(w, "%s is %s; kernels: %s; threads: %s\n", p.Name, p.Version, p.Kernels, threads[1:len(threads)-1])
	}
	if len(r.Unset) > 0 {
		fmt.Fprintf(w, "%s: not passed on to peers, which choose their kernels themselves\n", strings.Join(r.Unset, ", "))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(w, "no %s: %s; %s\n", m.Name, m.Why, m.Advice)
	}
}

// rate is a figure as work per second, or as time if the work is one step.
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
	Head
	Rows    []FileRow `json:"rows"`
	Peers   []Found   `json:"peers"`
	Missing []Missing `json:"missing"`
	Unset   []string  `json:"unset"`
}

// FileRow is a row in it. Seconds are per step; clock names the time that counts. Rival is absent
// if missing.
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
	RatioOf string    `json:"ratio_of,omitempty"` // ours to the rival's: "speed" or "time"
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

// FileBar is a bar, if any: of the rival's speed or time, or milliseconds.
type FileBar struct {
	Speed float64 `json:"speed_at_least,omitempty"`
	Time  float64 `json:"time_at_most,omitempty"`
	MS    float64 `json:"ms_at_most,omitempty"`
}

// File converts the report.
func (r *Report) File(h Head) File {
	f := File{Head: h, Rows: []FileRow{}, Peers: append([]Found{}, r.Peers...), Missing: append([]Missing{}, r.Missing...), Unset: append([]string{}, r.Unset...)}
	for _, row := range r.Rows {
		out := FileRow{Group: row.Group, Case: row.Name, Threads: row.Threads, Work: row.Work, Unit: row.Unit, Clock: "wall",
			Ours: fileSide("memopt", row.Here), Bar: FileBar{Speed: row.Bar.Speed, Time: row.Bar.Time}}
		if row.Threads == 1 {
			out.Clock = "cpu"
		}
		if row.There != (Figure{}) {
			rival := fileSide(row.Rival.Name, row.There)
			out.Rival, out.Ratio, out.RatioOf = &rival, finite(row.Ratio), "speed"
			if row.Bar.Time > 0 {
				out.RatioOf = "time"
			}
			if row.Bar.judges() {
				out.Met = &row.Met
			}
		}
		f.Rows = append(f.Rows, out)
	}
	return f
}

func fileSide(name string, f Figure) FileSide { return FileSide{name, f.Wall, f.CPU, f.Median} }

// finite replaces ratios that JSON cannot represent, of times too short for the clock.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	return x
}
