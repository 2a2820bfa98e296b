package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"memopt/internal/weights"
	"memopt/memopt/machine"
	"memopt/memopt/report"
	"memopt/memopt/session"
	"memopt/memopt/step"
	"memopt/plugin"
)

// Stats reports the memory of the service's process.
func (front) Stats(context.Context) (plugin.Answer, error) {
	debug.FreeOSMemory() // do not count garbage
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	w, anonymous := weights.Snapshot(), machine.AnonymousMemory()
	data, err := json.Marshal(map[string]any{"format": "memopt.stats/1", "version": step.Version, "anonymous": anonymous, "heap": heap.HeapInuse,
		"goroutines": runtime.NumGoroutine(),
		"weights":    map[string]any{"mapped": w.Mapped, "heap": w.Heap, "copied_unaligned": w.CopiedUnaligned, "copied_unmapped": w.CopiedUnmapped},
		"store":      session.HeldWeights()})
	text := fmt.Sprintf("memory of the service: %s, of it Go's heap %s\nweights: %s mapped, %s in memory\n",
		report.Bytes(anonymous), report.Bytes(int64(heap.HeapInuse)), report.Bytes(w.Mapped), report.Bytes(w.Heap))
	return plugin.Answer{JSON: string(data), Text: text}, err
}
