package f32

import "unsafe"

//go:noescape
func copySeenAVX512(dst, src *float32, list *sight, n, channels, srcStep, dstStep int)

//go:noescape
func copyPairsAVX512(dst, src *float32, list *sight, n, srcStep, dstStep int)

//go:noescape
func turnAVX512(dst, src *float32, t *turning, n, w int)

//go:noescape
func turnSeenAVX512(dst, src *float32, t *turning, n, w int, seen *uint64, bit int)

//go:noescape
func turnPairsAVX512(dst, src *float32, t *turning, n, w int, seen *uint64, bit int)

//go:noescape
func turnSomeAVX512(dst, src *float32, t *turning, n, w, all, some int)

// copySeen copies what is seen: a sight's channels, at most so many, lie srcStep
// apart and go dstStep apart.
func copySeen(dst, src []float32, list []sight, channels, srcStep, dstStep int) {
	if len(list) > 0 {
		copySeenAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), &list[0], len(list), channels, srcStep, dstStep)
	}
}

// copyPairs is the same for every other element.
func copyPairs(dst, src []float32, list []sight, srcStep, dstStep int) {
	if len(list) > 0 {
		copyPairsAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), &list[0], len(list), srcStep, dstStep)
	}
}

// turnAll turns n steps of whole rows.
func turnAll(dst, src []float32, t *turning, n, w int) {
	turnAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w)
}

// turnSeen turns n steps of rows of which only some elements are there.
func turnSeen(dst, src []float32, t *turning, n, w int, seen []uint64, bit int) {
	turnSeenAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, &seen[0], bit)
}

// turnPairs is the same for every other element.
func turnPairs(dst, src []float32, t *turning, n, w int, seen []uint64, bit int) {
	turnPairsAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, &seen[0], bit)
}

// turnSome turns those elements of rows of all, at most 16, that have a bit: n.
func turnSome(dst, src []float32, t *turning, n, w, all, some int) {
	turnSomeAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, all, some)
}
