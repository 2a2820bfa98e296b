package machine

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is the memory that this process can get now: the machine's free memory and swap, or less under a
// container's or a process's limit. 0 is unknown.
func Memory() int64 {
	most := uint64(math.MaxInt64)
	if n := available(); n > 0 {
		most = n
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil {
			most = min(most, n) // "max" does not parse, and is no limit
		}
	}
	if room, limited := AddressSpace(); limited {
		most = min(most, uint64(room))
	}
	if most == math.MaxInt64 {
		return 0
	}
	return int64(most)
}

// AddressSpace is the room that a limit of address space (ulimit -v) leaves to this process.
func AddressSpace() (room int64, limited bool) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur >= math.MaxInt64 {
		return 0, false
	}
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return int64(limit.Cur), true
	}
	pages, _, _ := strings.Cut(string(data), " ")
	n, _ := strconv.ParseInt(pages, 10, 53)
	return max(0, int64(limit.Cur)-n*int64(os.Getpagesize())), true
}

// available is the machine's available memory and free swap; 0 is unknown.
func available() (bytes uint64) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "MemAvailable" && name != "SwapFree" {
			continue
		}
		if kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53); err == nil {
			bytes += kb << 10
		}
	}
	return bytes
}

// AnonymousMemory is the resident memory of this process that no file backs; 0 is unknown.
func AnonymousMemory() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages; shared ones are backed by files
	if _, err := fmt.Sscan(string(data), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
