package f32

//go:noescape
func tile12AVX512(k int, a, b, c *float32, ldc, right int, add bool)

//go:noescape
func tile8AVX512(k int, a, b, c *float32, ldc, right int, add bool)

//go:noescape
func tile4AVX512(k int, a, b, c *float32, ldc, right int, add bool)

//go:noescape
func tileAVX2(k int, a, b, c *float32, ldc, right int, add bool)

//go:noescape
func turnAVX2(dst, src *float32, k, ld, w int)

// turn8 transposes eight rows of k floats (a multiple of 8) at stride ld to columns at stride w.
func turn8(dst, src []float32, k, ld, w int) {
	turnAVX2(&dst[:(k-1)*w+8][0], &src[:7*ld+k][0], k, ld, w)
}

//go:noescape
func copyRowsAVX2(dst, src *float32, rows, n, dstStep, srcStep int)

// copyRows8 is copyRows for rows of at least eight elements.
func copyRows8(dst, src []float32, rows, n, dstStep, srcStep int) {
	copyRowsAVX2(&dst[:(rows-1)*dstStep+n][0], &src[:(rows-1)*srcStep+n][0], rows, n, dstStep, srcStep)
}

// fastTiles lists the assembly micro-kernels that this CPU supports.
func fastTiles() (ts []tile) {
	if hasAVX512 {
		ts = append(ts, tile{"avx512", 12, 32, []int{4, 8}, func(rows, k int, a, b, c []float32, ldc, right int, add bool) {
			a0, b0, c0 := &a[:12*k][0], &b[:32*k][0], &c[:(rows-1)*ldc+right+16][0]
			switch rows {
			case 4:
				tile4AVX512(k, a0, b0, c0, ldc, right, add)
			case 8:
				tile8AVX512(k, a0, b0, c0, ldc, right, add)
			default:
				tile12AVX512(k, a0, b0, c0, ldc, right, add)
			}
		}})
	}
	if hasAVX2 {
		ts = append(ts, tile{"avx2", 6, 16, nil, func(rows, k int, a, b, c []float32, ldc, right int, add bool) {
			tileAVX2(k, &a[:6*k][0], &b[:16*k][0], &c[:(rows-1)*ldc+right+8][0], ldc, right, add)
		}})
	}
	return ts
}
