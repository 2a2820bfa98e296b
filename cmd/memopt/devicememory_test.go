package main

import (
	"encoding/json"
	"strings"
	"testing"

	"memopt/memopt"
)

// TestDeviceMemory: every number of a driver is shown, and nothing where there
// is none.
func TestDeviceMemory(t *testing.T) {
	var out strings.Builder
	deviceMemory(&out, nil)
	if out.Len() > 0 {
		t.Errorf("of no driver: %q", out.String())
	}
	m := memopt.DeviceMemory{Requested: 1000, Granted: 1024, Own: 192, Held: 1216, Peak: 1300, Calls: 4, Driver: 5000, DriverPeak: 6000}
	deviceMemory(&out, &m)
	const want = `
of the driver, in 4 allocations
bytes                     now   most
requested for the plan  1,000  1,000
granted for it          1,024  1,024
beside it                 192    192
granted in all          1,216  1,300
the driver counts 5,000 bytes taken, at most 6,000
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	text, err := json.Marshal(trainMemory{Device: &m})
	if err != nil || !strings.Contains(string(text), `"device":{"requested":1000,"granted":1024,"own":192,"held":1216,"peak":1300,"calls":4,"driver":5000,"driver_peak":6000}`) {
		t.Errorf("%s, %v", text, err)
	}
}
