// Y = alpha·op(A)·op(B) + beta·C, batched, as product.comp has it, for devices
// whose groups share fast memory: a group owns TM × TN elements of Y and brings slabs of
// SLAB terms of A and B there, the next slab while it multiplies the last; an invocation
// sums RM × RN elements, by fours, over k in ascending order. So an element has the same bits
// in every tile.
//
// CONV: a convolution or one of its gradients, without a copy of the image. B's element (p, j)
// is the image's at the place that p and j name together: one of them is a tap (channel and
// position in the kernel), the other a place (sample and position). TAPS says which. With
// places along the sum, groups may share it: each writes the sum of its own terms.
#version 450
#extension GL_EXT_control_flow_attributes : require

#define ACROSS (TN / RN)
#define THREADS (ACROSS * (TM / RM))
#define EACH_A (TM * SLAB / THREADS)
#define EACH_B (TN * SLAB / THREADS)

layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint BIAS = 0;  // C is added (1), or what the sums begin with (2)
layout(constant_id = 1) const uint WHOLE = 0; // no tile is cut off: by rows (1), columns (2), terms (4)
#ifdef CONV
//gather.glsl
#else
layout(constant_id = 2) const uint TRANS_B = 0; // element (p, j) of B is at j·ldb + p, not p·ldb + j
layout(constant_id = 3) const uint ALONG_I = 0; // A's neighbours lie along i, not along p

layout(push_constant) uniform Push {
	uint m, n, k;
	uint ai, ap; // element (i, p) of A is at i·ai + p·ap
	uint ldb;
	uint batch[2];            // the inner dims of the batch
	uint sa[3], sb[3], sy[3]; // strides of the batch, outer first
	uint first;               // of the batch
	uint fromA, fromB, fromY; // where strides count from
	uint ldy;                 // from a row of Y to the next
	uint fromC, ci, cj, cz;   // strides of C: rows, columns, the innermost dim of the batch
	float alpha, beta;
};
#endif

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) readonly buffer C { float c[]; };

// A line of four more keeps what is stored at once in different banks.
shared vec4 slabA[2][SLAB][TM / 4 + 1], slabB[2][SLAB][TN / 4 + 1];

void main() {
	uint me = gl_LocalInvocationIndex, x = me % ACROSS, w = me / ACROSS;
	uint row = gl_WorkGroupID.y * TM;
#ifdef CONV
	uint tiles = (n + TN - 1) / TN, column = gl_WorkGroupID.x % tiles * TN, some = gl_WorkGroupID.x / tiles;
	uint begin = some * part, end = min(k, begin + part);
	uint atA = fromA + gl_WorkGroupID.z * groupA, atB = fromB + gl_WorkGroupID.z * groupB;
	uint atY = fromY + gl_WorkGroupID.z * groupY + some * partY;
	// A lane's columns of B stay the same.
	const uint step = TAPS != 0 ? THREADS / TN : THREADS / SLAB;
	ivec3 meets[EACH_B];
	uint columns[EACH_B];
	[[unroll]] for (int q = 0; q < EACH_B; q++)
		if (TAPS == 0) columns[q] = tap(column + me / SLAB + q * step, meets[q]);
		else if (q == 0) columns[q] = place(column + me % TN, meets[q]);
#else
	const uint begin = 0;
	uint end = k;
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = fromA + z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = fromB + z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint atY = fromY + z0 * sy[0] + z1 * sy[1] + z2 * sy[2];
	uint column = gl_WorkGroupID.x * TN;
#endif
	float sum[RM][RN], nextA[EACH_A], nextB[EACH_B];
	// Of the four by four that an invocation has more than one of, the next is as far as there are others.
#define ROW(i) ((i) / 4 * (TM / RM * 4) + w * 4 + (i) % 4)
#define COLUMN(j) ((j) / 4 * (ACROSS * 4) + x * 4 + (j) % 4)

#ifdef CONV
#define OF_C(r, s) (atY + (r) * ldy + (s))
#define TERM_OF_A(p0) termOfA((p0) + me % SLAB)
#define ALONG_P true
#define STEP_OF_A 1
#define FETCH_B(p0) { \
		ivec3 met; \
		uint term; \
		if (TAPS == 0) term = place(p0 + me % SLAB, met); \
		[[unroll]] for (int q = 0; q < EACH_B; q++) { \
			uint p = TAPS != 0 ? me / TN + q * step : me % SLAB, j = TAPS != 0 ? me % TN : me / SLAB + q * step; \
			if (TAPS != 0) term = tap(p0 + p, met); \
			ivec3 at = met + (TAPS != 0 ? meets[0] : meets[q]); \
			bool there = ((WHOLE & 2) != 0 || column + j < n) && ((WHOLE & 4) != 0 || p0 + p < end) && (INSIDE != 0 || all(lessThan(uvec3(at), uvec3(size[0], size[1], size[2])))); \
			nextB[q] = there ? b[atB + term + (TAPS != 0 ? columns[0] : columns[q])] : 0; \
		} \
	}
#define PUT_B(to) \
	[[unroll]] for (int q = 0; q < EACH_B; q++) { \
		uint p = TAPS != 0 ? me / TN + q * step : me % SLAB, j = TAPS != 0 ? me % TN : me / SLAB + q * step; \
		slabB[to][p][j / 4][j % 4] = nextB[q]; \
	}
#else
#define OF_C(r, s) (fromC + z2 * cz + (r) * ci + (s) * cj)
#define TERM_OF_A(p0) (((p0) + me % SLAB) * ap)
#define ALONG_P (ALONG_I == 0)
#define STEP_OF_A ap
#define FETCH_B(p0) \
	[[unroll]] for (int q = 0; q < EACH_B; q++) { \
		uint e = q * THREADS + me, j = TRANS_B == 0 ? e % TN : e / SLAB, p = TRANS_B == 0 ? e / TN : e % SLAB; \
		bool there = ((WHOLE & 2) != 0 || column + j < n) && ((WHOLE & 4) != 0 || p0 + p < end); \
		nextB[q] = there ? b[atB + (TRANS_B == 0 ? (p0 + p) * ldb + column + j : (column + j) * ldb + p0 + p)] : 0; \
	}
#define PUT_B(to) \
	[[unroll]] for (int q = 0; q < EACH_B; q++) { \
		uint e = q * THREADS + me, j = TRANS_B == 0 ? e % TN : e / SLAB, p = TRANS_B == 0 ? e / TN : e % SLAB; \
		slabB[to][p][j / 4][j % 4] = nextB[q]; \
	}
#endif
	// Neighbours in memory are neighbours in the group.
#define FETCH_A(p0) { \
		uint term = ALONG_P ? TERM_OF_A(p0) : 0; \
		[[unroll]] for (int q = 0; q < EACH_A; q++) { \
			uint e = q * THREADS + me, i = ALONG_P ? e / SLAB : e % TM, p = ALONG_P ? e % SLAB : e / TM; \
			bool there = ((WHOLE & 1) != 0 || row + i < m) && ((WHOLE & 4) != 0 || p0 + p < end); \
			nextA[q] = there ? a[atA + (row + i) * ai + (ALONG_P ? term : (p0 + p) * STEP_OF_A)] : 0; \
		} \
	}
#define PUT_A(to) \
	[[unroll]] for (int q = 0; q < EACH_A; q++) { \
		uint e = q * THREADS + me, i = ALONG_P ? e / SLAB : e % TM, p = ALONG_P ? e % SLAB : e / TM; \
		slabA[to][p][i / 4][i % 4] = nextA[q]; \
	}

	[[unroll]] for (int i = 0; i < RM; i++)
		[[unroll]] for (int j = 0; j < RN; j++) {
			uint r = row + ROW(i), s = column + COLUMN(j);
			sum[i][j] = BIAS == 2 && r < m && s < n ? c[OF_C(r, s)] : 0;
		}
	FETCH_A(begin)
	FETCH_B(begin)
	PUT_A(0)
	PUT_B(0)
	barrier();
	uint now = 0;
	for (uint p0 = begin + SLAB; p0 < end + SLAB; p0 += SLAB) {
		if (p0 < end) {
			FETCH_A(p0)
			FETCH_B(p0)
		}
		[[dont_unroll]] for (int p = 0; p < SLAB; p++) {
			vec4 f[RM / 4], g[RN / 4];
			[[unroll]] for (int i = 0; i < RM / 4; i++) f[i] = slabA[now][p][i * (TM / RM) + w];
			[[unroll]] for (int j = 0; j < RN / 4; j++) g[j] = slabB[now][p][j * ACROSS + x];
			[[unroll]] for (int i = 0; i < RM; i++)
				[[unroll]] for (int j = 0; j < RN; j++) sum[i][j] = fma(f[i / 4][i % 4], g[j / 4][j % 4], sum[i][j]);
		}
		now = 1 - now;
		if (p0 < end) {
			PUT_A(now)
			PUT_B(now)
		}
		barrier();
	}
	[[unroll]] for (int j = 0; j < RN; j++) {
		uint s = column + COLUMN(j);
		if ((WHOLE & 2) == 0 && s >= n) continue;
#ifdef CONV
		uint to = atY + s;
		if (TAPS != 0) {
			uvec3 where;
			uint of = samples(s, where);
			to = atY + of * ys + where.x * yz + where.y * yy + where.z * yx;
		}
#else
		uint to = atY + s;
#endif
		[[unroll]] for (int i = 0; i < RM; i++) {
			uint r = row + ROW(i);
			if ((WHOLE & 1) == 0 && r >= m) continue;
#ifdef CONV
			float v = sum[i][j];
			if (BIAS == 1) v += c[fromC + gl_WorkGroupID.z * m + r];
#else
			float v = alpha * sum[i][j];
			if (BIAS == 1) v += beta * c[OF_C(r, s)];
#endif
			y[to + r * ldy] = v;
		}
	}
}
