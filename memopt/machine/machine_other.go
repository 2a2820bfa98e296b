//go:build !linux

package machine

// AddressSpace is not known on this system.
func AddressSpace() (room int64, limited bool) { return 0, false }

// Memory is not known on this system.
func Memory() int64 { return 0 }

// AnonymousMemory is not known on this system.
func AnonymousMemory() int64 { return 0 }
