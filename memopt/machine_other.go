//go:build !linux

package memopt

// machineMemory is not known on this system.
func machineMemory() int64 { return 0 }
