package f32

import "unsafe"

// Norm is y = (x − m)·s·scale + bias; each element of scale and bias applies to run elements.
func Norm(y, x []float32, m, s float32, scale, bias []float32, run int) {
	y = y[:len(x)]
	switch {
	case run > 1:
		for k := 0; k*run < len(x); k++ {
			g, c := s*scale[k], float32(0)
			if bias != nil {
				c = bias[k]
			}
			out := y[k*run : (k+1)*run]
			for i, v := range x[k*run : (k+1)*run] {
				out[i] = (v-m)*g + c
			}
		}
	case vectors:
		a := mapping2(y, x, scale)
		a.scalars[0], a.scalars[1] = m, s
		if bias == nil {
			a.normPlain(len(x))
			return
		}
		a.in[2] = unsafe.SliceData(bias[:len(x)])
		a.norm(len(x))
	case bias == nil:
		scale = scale[:len(x)]
		for i, v := range x {
			y[i] = (v - m) * s * scale[i]
		}
	default:
		scale, bias = scale[:len(x)], bias[:len(x)]
		for i, v := range x {
			y[i] = (v-m)*s*scale[i] + bias[i]
		}
	}
}

// NormAffine adds dy·(x − m)·s to ds and dy to db.
func NormAffine(ds, db, dy, x []float32, m, s float32) {
	db, dy, x = db[:len(ds)], dy[:len(ds)], x[:len(ds)]
	if vectors {
		a := mapping2(ds, dy, x)
		a.in[2], a.in[3], a.out[1] = unsafe.SliceData(ds), unsafe.SliceData(db), unsafe.SliceData(db)
		a.scalars[0], a.scalars[1] = m, s
		a.normAffine(len(ds))
		return
	}
	for i, d := range dy {
		ds[i] += d * ((x[i] - m) * s)
		db[i] += d
	}
}

// NormAffineRun is Σ dy·(x − m) and Σ dy.
func NormAffineRun(dy, x []float32, m float32) (sumDN, sumD float64) {
	x = x[:len(dy)]
	for i, d := range dy {
		sumDN += float64(d) * float64(x[i]-m)
		sumD += float64(d)
	}
	return sumDN, sumD
}

// NormSlope is dx of Norm for a row with the given mean and inverse deviation; without centred, no
// mean is subtracted. Sums are float32 over short pieces and float64 over these.
func NormSlope(dx, dy, x []float32, mean, inv float64, scale []float32, run int, centred bool) {
	m, s := float32(mean), float32(inv)
	var sumG, sumGN float64
	if run == 1 && vectors {
		var sums rowSums
		a := mapping2(dx, dy, x)
		a.in[2], a.sums, a.scalars[0] = unsafe.SliceData(scale[:len(dy)]), &sums, m
		a.normSums(len(dy))
		sumG, sumGN = sums.total(0), sums.total(1)
	} else if run == 1 {
		scale = scale[:len(dy)]
		InBlocks(len(dy), func(lo, hi int) {
			dy, x, scale := dy[lo:hi], x[lo:hi], scale[lo:hi]
			var g0, g1, n0, n1 float32
			i := 0
			for ; i+2 <= len(dy); i += 2 {
				a, b := dy[i]*scale[i], dy[i+1]*scale[i+1]
				g0 += a
				g1 += b
				n0 += a * (x[i] - m)
				n1 += b * (x[i+1] - m)
			}
			for ; i < len(dy); i++ {
				a := dy[i] * scale[i]
				g0 += a
				n0 += a * (x[i] - m)
			}
			sumG += float64(g0) + float64(g1)
			sumGN += float64(n0) + float64(n1)
		})
	} else {
		for k := 0; k*run < len(dy); k++ {
			var g, n float64
			for i := k * run; i < (k+1)*run; i++ {
				g += float64(dy[i])
				n += float64(dy[i]) * float64(x[i]-m)
			}
			sumG += g * float64(scale[k])
			sumGN += n * float64(scale[k])
		}
	}
	if !centred {
		sumG = 0
	}
	width := float64(len(dy))
	back, slope := float32(sumG/width), float32(sumGN*inv/width*inv)
	if run == 1 && vectors {
		a := mapping2(dx, dy, x)
		a.in[2] = unsafe.SliceData(scale[:len(dy)])
		a.scalars = [10]float32{m, s, -back, slope}
		a.normSlope(len(dy))
		return
	}
	if run == 1 {
		for i, d := range dy {
			dx[i] = s * (d*scale[i] - back - (x[i]-m)*slope)
		}
		return
	}
	for k := 0; k*run < len(dy); k++ {
		w := scale[k]
		for i := k * run; i < (k+1)*run; i++ {
			dx[i] = s * (dy[i]*w - back - (x[i]-m)*slope)
		}
	}
}
