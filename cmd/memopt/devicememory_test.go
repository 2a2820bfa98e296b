package main

import (
	"encoding/json"
	"strings"
	"testing"

	"memopt/memopt/devices"
)

// TestDeviceMemory: every number of a driver is shown, and nothing where there
// is none.
func TestDeviceMemory(t *testing.T) {
	var out strings.Builder
	deviceMemory(&out, nil)
	if out.Len() > 0 {
		t.Errorf("of no driver: %q", out.String())
	}
	m := devices.Memory{Owners: []devices.Owned{{Owner: "arena", Requested: 900, Granted: 912}, {Owner: "inputs", Requested: 100, Granted: 112}, {Owner: "beside the plan", Requested: 190, Granted: 192}},
		Requested: 1000, Granted: 1024, Own: 192, Held: 1216, Peak: 1300, Calls: 4, Driver: 5000, DriverPeak: 6000}
	deviceMemory(&out, &m)
	const want = `
of the driver, in 4 allocations
bytes            requested  granted  at most
arena                  900      912      912
inputs                 100      112      112
beside the plan        190      192      192
in all               1,190    1,216    1,300
the driver counts 5,000 bytes taken, at most 6,000
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	text, err := json.Marshal(trainMemory{Device: &m})
	if err != nil || !strings.Contains(string(text), `"device":{"owners":[{"owner":"arena","requested":900,"granted":912},{"owner":"inputs","requested":100,"granted":112},{"owner":"beside the plan","requested":190,"granted":192}],"requested":1000,"granted":1024,"own":192,"host":0,"held":1216,"peak":1300,"calls":4,"driver":5000,"driver_peak":6000}`) {
		t.Errorf("%s, %v", text, err)
	}
}
