package f32

import "testing"

// atEveryLevel runs f at every level that this machine has.
func atEveryLevel(t *testing.T, f func(t *testing.T)) {
	for _, name := range Levels() {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(UseLevel(name))
			f(t)
		})
	}
}
