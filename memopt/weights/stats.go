package weights

import "sync"

// Stats are the bytes this process holds through the package, and the copies it
// had to make. Mapped counts mappings rather than the blocks in them, so that two
// blocks over the same bytes are not counted twice; Zero counts what the blocks
// stand for, which takes no memory.
type Stats struct {
	Mapped, Heap, Device, Zero                 int64 // bytes held now
	MappedHigh, HeapHigh, DeviceHigh, ZeroHigh int64 // the most held at any time
	Blocks                                     int64 // blocks alive now

	CopiedUnaligned int64 // bytes copied to the heap since the start because they lie unaligned
	CopiedUnmapped  int64 // bytes read into the heap since the start because mapping failed
}

// ledger is the one set of books, guarded by its lock.
var ledger struct {
	sync.Mutex
	held, high [kinds]int64
	blocks     int64

	unaligned, unmapped int64
}

// Snapshot returns the books as they stand.
func Snapshot() Stats {
	ledger.Lock()
	defer ledger.Unlock()
	now, high := ledger.held, ledger.high
	return Stats{
		Mapped: now[KindMapped], Heap: now[KindHeap], Device: now[KindDevice], Zero: now[KindZero],
		MappedHigh: high[KindMapped], HeapHigh: high[KindHeap], DeviceHigh: high[KindDevice], ZeroHigh: high[KindZero],
		Blocks:          ledger.blocks,
		CopiedUnaligned: ledger.unaligned,
		CopiedUnmapped:  ledger.unmapped,
	}
}

// hold enters n more bytes of a kind, or takes them out when n is negative.
func hold(k Kind, n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.held[k] += n
	ledger.high[k] = max(ledger.high[k], ledger.held[k])
	if ledger.held[k] < 0 {
		panic("weights: more " + k.String() + " bytes given back than were held")
	}
}

// countBlocks enters n more blocks, or fewer when n is negative.
func countBlocks(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.blocks += n
}

// CountUnaligned notes n bytes that somebody else copied because of their place in the file.
func CountUnaligned(n int64) { countUnaligned(n) }

// countUnaligned notes n bytes copied because of their place in the file.
func countUnaligned(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.unaligned += n
}

// countUnmapped notes n bytes read because their file could not be mapped.
func countUnmapped(n int64) {
	ledger.Lock()
	defer ledger.Unlock()
	ledger.unmapped += n
}
