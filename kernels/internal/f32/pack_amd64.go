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

// copySeen copies the elements of each sight, for at most the given number of channels, from stride
// srcStep to stride dstStep.
func copySeen(dst, src []float32, list []sight, channels, srcStep, dstStep int) {
	if len(list) > 0 {
		copySeenAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), &list[0], len(list), channels, srcStep, dstStep)
	}
}

// copyPairs is copySeen for every other element.
func copyPairs(dst, src []float32, list []sight, srcStep, dstStep int) {
	if len(list) > 0 {
		copyPairsAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), &list[0], len(list), srcStep, dstStep)
	}
}

// turnAll transposes n elements of whole rows.
func turnAll(dst, src []float32, t *turning, n, w int) {
	turnAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w)
}

// turnSeen transposes n elements of rows, 0 where the bit is not set.
func turnSeen(dst, src []float32, t *turning, n, w int, seen []uint64, bit int) {
	turnSeenAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, &seen[0], bit)
}

// turnPairs is turnSeen for every other element.
func turnPairs(dst, src []float32, t *turning, n, w int, seen []uint64, bit int) {
	turnPairsAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, &seen[0], bit)
}

// turnSome transposes the n elements of each row of all elements (at most 16) whose bit in some is set.
func turnSome(dst, src []float32, t *turning, n, w, all, some int) {
	turnSomeAVX512(unsafe.SliceData(dst), unsafe.SliceData(src), t, n, w, all, some)
}
