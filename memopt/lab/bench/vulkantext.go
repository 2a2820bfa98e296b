package bench

import (
	"fmt"
	"io"

	"memopt/memopt/report"
)

// Text writes the report as tables for people.
func (r *VulkanReport) Text(w io.Writer) {
	d := r.Device
	fmt.Fprintf(w, "vulkan:%d %s (%s), driver %s, Vulkan %s\n\n", d.Number, d.Name, d.Kind, d.Driver, d.API)
	if len(r.Kernels.Rows) > 0 {
		r.Kernels.Text(w)
		fmt.Fprintln(w)
	}
	if len(r.Launches) > 0 {
		table := [][]string{{"a step without its kernels", "launches", "host µs a launch", "bar", "", "of ours", "host µs a step", "for inputs", "for a bare submission", "clock µs a launch", "recording µs a launch", "opening ms", "first step ms", "barriers", "in order", "submissions"}}
		for _, l := range r.Launches {
			table = append(table, []string{l.Program, fmt.Sprint(l.Launches), fmt.Sprintf("%.2f", l.HostUS), fmt.Sprintf("≤ %d", hostBar), verdict(l.Met), fmt.Sprintf("%.2f", l.OwnUS),
				fmt.Sprintf("%.1f", l.StepUS), fmt.Sprintf("%.1f", l.InputsUS), fmt.Sprintf("%.1f", l.BareUS), fmt.Sprintf("%.2f", l.WallUS), fmt.Sprintf("%.2f", l.RecordUS), fmt.Sprintf("%.1f", l.OpenMS), fmt.Sprintf("%.1f", l.FirstMS),
				fmt.Sprint(l.Submits.Barriers), fmt.Sprint(l.Submits.InOrder), fmt.Sprint(l.Submits.Submissions)})
		}
		report.Table(w, "lrrllrrrrrrrrrrr", table)
		fmt.Fprintln(w)
	}
	if len(r.Budgets) > 0 {
		table := [][]string{{"budget", "of the arena", "arena", "again", "as planned", "same losses", "predicted", "measured", "step ms", ""}}
		for i, b := range r.Budgets {
			line := []string{b.Model, fmt.Sprintf("%g %%", b.Percent), report.Bytes(b.Arena), fmt.Sprint(b.Again), yesNo(b.Fits), yesNo(b.SameBits),
				fmt.Sprintf("× %.3f", b.Predicted), fmt.Sprintf("× %.3f", b.Measured), fmt.Sprintf("%.2f", b.StepMS), b.Note}
			if i > 0 && r.Budgets[i-1].Model == b.Model {
				line[0] = ""
			}
			if b.Note != "" {
				for k := 2; k < len(line)-1; k++ {
					line[k] = "–"
				}
			}
			table = append(table, line)
		}
		report.Table(w, "lrrrllrrrl", table)
		fmt.Fprintln(w)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, n)
	}
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "short"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// VulkanFile is the report as JSON.
type VulkanFile struct {
	File
	Device   VulkanDevice `json:"device"`
	Launches []LaunchRow  `json:"launches"`
	Budgets  []BudgetRow  `json:"budgets"`
	Notes    []string     `json:"notes"`
}

// File converts the report.
func (r *VulkanReport) File(h Head) VulkanFile {
	return VulkanFile{r.Kernels.File(h), r.Device, append([]LaunchRow{}, r.Launches...), append([]BudgetRow{}, r.Budgets...), append([]string{}, r.Notes...)}
}
