package bench

import (
	"fmt"
	"io"
	"strings"

	"memopt/memopt/report"
)

// Text writes the report as tables for people.
func (r *TorchReport) Text(w io.Writer) {
	for _, m := range r.Models {
		fmt.Fprintln(w, m.title())
		if len(m.Rows) > 0 {
			rows := m.table()
			var short []string
			for i, row := range rows {
				last := len(row) - 1
				if what, is := strings.CutPrefix(row[last], "short: "); is {
					short = append(short, fmt.Sprintf("short, %s %s: %s", rows[i][0], rows[i][1], what))
					row[last] = "short"
				}
			}
			report.Table(w, "="+"ll"+strings.Repeat("r", len(rows[0])-3)+"l", rows)
			for _, line := range short {
				fmt.Fprintln(w, line)
			}
		}
		fmt.Fprintln(w)
	}
	met, all := r.bars()
	fmt.Fprintf(w, "%d of %d bars are met. PyTorch %s on one thread; bytes are the growth over forward and backward, gradients included;\n", met, all, r.PyTorch)
	fmt.Fprintln(w, "CPU time of the quickest step, in rounds in which all ways take turns. Rivals are the quickest that keep to the bytes asked for and compute the right gradients.")
}

func (m TorchModel) title() string {
	if m.Error != "" {
		return m.Model + ": " + m.Error
	}
	e := m.Rows[0]
	return fmt.Sprintf("%s: %s and %.3g ms in eager mode", m.Model, report.Bytes(e.Measured), e.CPUMS)
}

// table is the rows as cells, the first being the head.
func (m TorchModel) table() [][]string {
	table := [][]string{{"way", "", "asked", "promised", "measured", "extra FLOPs", "promised", "extra time promised", "time", "checkpointing", "knob", "bars"}}
	for _, r := range m.Rows[1:] {
		line := []string{r.Kind, r.Name, bytesOr(r.Asked), bytesOr(r.Promised), bytesOr(r.Measured), "", "", "", "", "", "", r.verdicts()}
		if r.Error == "" && r.Measured > 0 {
			line[5] = report.Extra(r.Extra, 2)
			if r.Promised > 0 {
				line[6] = report.Extra(r.ExtraPromised, 2)
			}
			if r.Timed {
				line[7] = report.Extra(r.Overhead, 1)
			}
			line[8] = times(r.Ratio)
		}
		if r.BesideMS > 0 {
			line[11] = fmt.Sprintf("recorded and planned in %.0f ms beside the step; %s", r.BesideMS, line[11])
		}
		line[9], line[10] = m.rival("checkpoint", r.Checkpoint), m.rival("knob", r.Knob)
		table = append(table, line)
	}
	return table
}

func (m TorchModel) rival(kind, name string) string {
	for _, x := range m.Rows {
		if name != "" && x.Kind == kind && x.Name == name {
			return fmt.Sprintf("%s, %s", times(x.Ratio), report.Extra(x.Extra, 1))
		}
	}
	return ""
}

// verdicts lists the bars that a row misses, or what is wrong with a rival.
func (r TorchRow) verdicts() string {
	var short []string
	for _, b := range r.Bars {
		if !b.Met {
			short = append(short, b.Name+": "+b.Says)
		}
	}
	switch {
	case len(short) > 0:
		return "short: " + strings.Join(short, "; ")
	case len(r.Bars) > 0:
		return "met"
	case r.Error != "":
		return r.Error
	case r.ErrorOfValues > wrongValues:
		return "wrong gradients"
	case r.Bits != nil && !*r.Bits:
		return fmt.Sprintf("other bits, %.0e", r.ErrorOfValues)
	}
	return ""
}

func bytesOr(n int64) string {
	if n == 0 {
		return ""
	}
	return report.Bytes(n)
}

func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("× %.2f", ratio)
}

// TorchFile is the report as JSON.
type TorchFile struct {
	File
	Torch *TorchReport `json:"torch"`
}

// File converts the report.
func (r *TorchReport) File(h Head) TorchFile {
	f := TorchFile{(&Report{}).File(h), r}
	f.Peers = append(f.Peers, Found{"PyTorch", r.PyTorch, "", []int{1}})
	return f
}
