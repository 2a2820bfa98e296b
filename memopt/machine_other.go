//go:build !linux

package memopt

// AddressSpace is not known on this system.
func AddressSpace() (room int64, limited bool) { return 0, false }

// machineMemory is not known on this system.
func machineMemory() int64 { return 0 }

// AnonymousMemory is not known on this system.
func AnonymousMemory() int64 { return 0 }
