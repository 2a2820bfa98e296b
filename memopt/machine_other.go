//go:build !linux

package memopt

// machineMemory is not known on this system.
func machineMemory() int64 { return 0 }

// anonymousMemory is not known on this system.
func anonymousMemory() int64 { return 0 }
