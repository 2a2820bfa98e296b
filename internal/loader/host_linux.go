package loader

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// resident is the process's resident memory as the system counts it.
type resident struct{ anon, file, shmem int64 }

func hostNow() (m resident) {
	for name, kb := range status() {
		switch name {
		case "RssAnon":
			m.anon = kb << 10
		case "RssFile":
			m.file = kb << 10
		case "RssShmem":
			m.shmem = kb << 10
		}
	}
	return m
}

// highWater is the peak of resident memory since the last reset.
func highWater() int64 { return status()["VmHWM"] << 10 }

// resetHighWater resets the peak, if the system allows it.
func resetHighWater() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// status is the sizes in /proc/self/status, in KiB.
func status() map[string]int64 {
	sizes := map[string]int64{}
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return sizes
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53); err == nil {
			sizes[name] = n
		}
	}
	return sizes
}

// goHeap is the anonymous memory of Go's heap: of mappings near one of its objects.
func goHeap() (bytes int64) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0
	}
	defer f.Close()
	const near = 40 // bits: only the runtime uses these addresses
	object := uint64(uintptr(unsafe.Pointer(new([64]byte)))) >> near
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if name, kb, ok := strings.Cut(line, ":"); ok && name == "Anonymous" {
			if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 53); err == nil && inside {
				bytes += n << 10
			}
		} else if from, _, ok := strings.Cut(line, "-"); ok {
			if at, err := strconv.ParseUint(from, 16, 64); err == nil {
				inside = at>>near == object
			}
		}
	}
	return bytes
}
