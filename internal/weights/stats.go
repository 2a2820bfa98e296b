package weights

import "sync"

// Stats are the bytes this process holds through the package, and the copies it
// had to make. Mapped counts mappings rather than the blocks in them, so that two
// blocks over the same bytes are not counted twice.
type Stats struct {
	Mapped, Heap         int64 // bytes held now
	MappedHigh, HeapHigh int64 // the most held at any time
	Blocks               int64 // blocks alive now

	CopiedUnaligned int64 // bytes copied to the heap since the start because they lie unaligned
	CopiedUnmapped  int64 // bytes read into the heap since the start because mapping failed
}

// ledger has the counters.
var ledger struct {
	sync.Mutex
	held, high [kinds]int64
	blocks     int64

	unaligned, unmapped int64
}

// Snapshot returns the current statistics.
func Snapshot() Stats {
	ledger.Lock()
	defer ledger.Unlock()
	now, high := ledger.held, ledger.high
	return Stats{
		Mapped: now[KindMapped], Heap: now[KindHeap],
		MappedHigh: high[KindMapped], HeapHigh: high[KindHeap],
		Blocks:          ledger.blocks,
		CopiedUnaligned: ledger.unaligned,
		CopiedUnmapped:  ledger.unmapped,
	}
}

// hold counts n more bytes of a kind; n may be negative.
func hold(k Kind, n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.held[k] += n
	ledger.high[k] = max(ledger.high[k], ledger.held[k])
	if ledger.held[k] < 0 {
		panic("weights: more " + k.String() + " bytes given back than were held")
	}
}

// countBlocks counts n more blocks; n may be negative.
func countBlocks(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.blocks += n
}

// CountUnaligned counts n bytes that another package copied because they are unaligned in their file.
func CountUnaligned(n int64) { countUnaligned(n) }

// countUnaligned counts n bytes copied because they are unaligned in their file.
func countUnaligned(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.unaligned += n
}

// countUnmapped counts n bytes read because their file could not be mapped.
func countUnmapped(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.unmapped += n
}
