package bench

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"memopt/internal/graph"
	"memopt/kernels/vulkan"
	"memopt/planner"
)

// TestVulkanCases: every case is a graph whose nodes all have kernels, and so are the small ones of rehearsals.
func TestVulkanCases(t *testing.T) {
	names := map[string]bool{}
	small := slices.DeleteFunc(vulkanCasesOf(smallSizes), func(c *vulkanCase) bool { return !c.graphics })
	for _, c := range slices.Concat(vulkanCases, small) {
		name := c.group + " " + c.name
		if names[name] || c.work <= 0 || len(c.rivals) == 0 {
			t.Errorf("%s: the row is wrong", name)
		}
		names[name] = true
		j, err := c.job()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := planner.Make(j.graph, planner.Request{Dims: j.dims, Strategy: "keep-all", Lowered: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := p.Schedule()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, l := range s.Launches {
			if l.Node == nil || l.Node.Op.View {
				continue
			}
			if low, err := graph.Lower(l.Node, s.Binding, graph.PlanLimits); err != nil || low.Refused != "" {
				t.Errorf("%s: node %s has no kernels: %v %s", name, l.Node.Name, err, low.Refused)
			}
		}
	}
}

// testDevice is a bench of the shortest rounds on the device that tests use.
func testDevice(t *testing.T) *vulkanBench {
	t.Helper()
	gpu, err := vulkan.Choose(os.Getenv("MEMOPT_TEST_VULKAN"))
	if err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b := &vulkanBench{gpu: gpu, length: rounds{count: 1, least: time.Millisecond}, peers: newPeers("/nonsuch/python"), baselines: map[string]Side{}, report: &VulkanReport{}}
	t.Cleanup(b.close)
	return b
}

// TestVulkanBudgets: bytes are as planned and losses equal; a budget below the floor is reported.
func TestVulkanBudgets(t *testing.T) {
	b := testDevice(t)
	if err := b.budgetsOf(budgetModels[1].name, budgetModels[1].job); err != nil {
		t.Fatal(err)
	}
	rows := b.report.Budgets
	if len(rows) != 1+len(vulkanBudgets) {
		t.Fatalf("%+v", rows)
	}
	for i, r := range rows {
		if r.Note != "" {
			if !strings.Contains(r.Note, "the floor is ") {
				t.Errorf("%+v", r)
			}
			continue
		}
		if !r.Fits || !r.SameBits || r.StepMS <= 0 || r.Measured <= 0 || (i > 0) != (r.Again > 0) || (i > 0) != (r.Predicted > 1) {
			t.Errorf("%+v", r)
		}
	}
	if rows[1].Note != "" {
		t.Errorf("%g %%: %s", rows[1].Percent, rows[1].Note)
	}
}

// TestVulkanBench: kernels have rivals with the same work, launches have times, and the report
// lists what is missing.
func TestVulkanBench(t *testing.T) {
	b := testDevice(t)
	for _, c := range vulkanCases {
		if c.name == "512 NN" || c.name == "copy shader" || strings.HasPrefix(c.name, "block") {
			if err := b.kernel(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	row, err := b.launchRow("chain", chain(16))
	if err != nil {
		t.Fatal(err)
	}
	if row.Launches != 16 || row.BareUS <= 0 || row.StepUS <= 0 || row.HostUS != max(0, row.StepUS-row.InputsUS)/16 || row.OwnUS > row.HostUS || row.FirstMS < 0 || row.OpenMS < 0 {
		t.Errorf("%+v", row)
	}
	b.report.Launches = append(b.report.Launches, row)
	b.report.Kernels.Missing = b.peers.missing
	for _, r := range b.report.Kernels.Rows {
		if r.Here.Wall <= 0 || r.Rival.Name != "" && r.Ratio <= 0 || r.Rival.Name == "PyTorch" || r.Rival.Name == "NumPy" {
			t.Errorf("%+v", r)
		}
	}
	var text strings.Builder
	b.report.Text(&text)
	for _, want := range []string{"vkCmdCopyBuffer", "memopt's CPU device", "no NumPy: ", "no PyTorch: ", "for a bare submission"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if len(b.report.Notes) > 0 {
		t.Errorf("not all runs on the device: %q", b.report.Notes)
	}
	var f VulkanFile
	data, err := json.Marshal(b.report.File(NewHead("vulkan", "memopt bench vulkan", "0")))
	if err != nil || json.Unmarshal(data, &f) != nil || f.Format != "memopt.bench/1" || len(f.Rows) != len(b.report.Kernels.Rows) || f.Budgets == nil || len(f.Launches) != 1 {
		t.Errorf("%v: %s", err, data)
	}
}

// TestVulkanRehearsal: a rehearsal has the cases of graphics processors, small, and their names tell them apart from those.
func TestVulkanRehearsal(t *testing.T) {
	large, small := 0, vulkanCasesOf(smallSizes)
	for i, c := range vulkanCases {
		if c.graphics != small[i].graphics || c.group != small[i].group {
			t.Fatalf("case %d is %s, and %s in a rehearsal", i, c.name, small[i].name)
		}
		if !c.graphics {
			continue
		}
		large++
		if c.name == small[i].name || c.work < small[i].work || c.work > 1 && c.work < 100*small[i].work {
			t.Errorf("%s is %s in a rehearsal", c.name, small[i].name)
		}
	}
	if large < 10 {
		t.Errorf("only %d cases of graphics processors", large)
	}
}

// TestVulkanWithin: what would begin too late is counted, and what was measured is shown.
func TestVulkanWithin(t *testing.T) {
	testDevice(t)
	r, err := Vulkan(VulkanOptions{Device: os.Getenv("MEMOPT_TEST_VULKAN"), Only: []string{"conv", "launches"}, Within: time.Nanosecond, Rehearse: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := "7 cases are not measured, which would have begun after more than 1ns"; len(r.Kernels.Rows) > 0 || !slices.Contains(r.Notes, want) {
		t.Errorf("%d rows, notes %q", len(r.Kernels.Rows), r.Notes)
	}
}

// TestVulkanRequests: groups are checked, and a missing device is a request that cannot be met.
func TestVulkanRequests(t *testing.T) {
	if _, err := Vulkan(VulkanOptions{Only: []string{"matmull"}}); err == nil || !strings.Contains(err.Error(), strings.Join(VulkanGroups(), ", ")) {
		t.Errorf("%v", err)
	}
	_, err := Vulkan(VulkanOptions{Device: "a device of no such name"})
	var none *NoDeviceError
	if !errors.As(err, &none) || none.ExitCode() != 1 || errors.Unwrap(none) == nil {
		t.Errorf("%v", err)
	}
	for _, g := range VulkanGroups() {
		if !slices.Contains(strings.FieldsFunc(VulkanDoc, func(r rune) bool { return strings.ContainsRune(" ,.;", r) }), g) {
			t.Errorf("the manual does not name group %s", g)
		}
	}
}

// TestShare: a side's time is multiplied by the factor, and the side stays open.
func TestShare(t *testing.T) {
	s := share{&counting{step: Time{1, 2}}, 0.5}
	if got, err := s.Run(2); err != nil || got != (Time{1, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, _ := (byWall{s}).Run(2); got != (Time{Wall: 1}) {
		t.Errorf("by wall %v", got)
	}
}

// TestBarless: a row without a bar shows speed, and is not judged.
func TestBarless(t *testing.T) {
	row := Row{Case: Case{Group: "g", Name: "n", Work: 1, Unit: "step"}, Threads: 2, Here: Figure{Wall: 2, Median: 2}, There: Figure{Wall: 1, Median: 1}}
	row.Ratio = row.Bar.ratio(2, 1)
	r := Report{Bench: "test", Rows: []Row{row}}
	var text strings.Builder
	r.Text(&text)
	if row.Ratio != 0.5 || !strings.Contains(text.String(), "0.50  speed") || !strings.Contains(text.String(), "0 of 0 bars") || r.File(Head{}).Rows[0].Met != nil {
		t.Errorf("%v\n%s", row.Ratio, text.String())
	}
}
