package export

import (
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/planner"
	"memopt/planner/planfile"
)

// TestExportORTIsReadable: what is written for ONNX Runtime has one entry of a cluster,
// so that a config file of it is one that is read.
func TestExportORTIsReadable(t *testing.T) {
	f := &planfile.File{Fields: planfile.Fields{Clusters: []planner.Cluster{
		{Key: "Cast+:2:-1", Applied: 1, Freq: 1},
		{Key: "Cast+:1:-1", Applied: 3, Freq: 4},
		{Key: "Reshape+:1:-1,Gelu+:1:-1", Applied: 2, Freq: 2},
		{Key: "Gelu+:1:-1", Applied: 2, Freq: 2},
		{Key: "Tile+:1:-1", Freq: 1},
	}}}
	var out Plan
	toORT(f, &out)
	if want := []string{"Cast+:1:3", "Gelu+:1:-1", "Reshape+:1:-1"}; !slices.Equal(out.Config, want) {
		t.Errorf("entries %q, want %q", out.Config, want)
	}
	if _, err := configs.ParseRequests(strings.Join(out.Config, ","), "exported"); err != nil {
		t.Error(err)
	}
	if said := strings.Join(out.Warnings, "\n"); !strings.Contains(said, "Cast+:2:-1 is left out beside Cast+:1:3") || strings.Contains(said, "Gelu") {
		t.Errorf("warnings %q", out.Warnings)
	}
}
