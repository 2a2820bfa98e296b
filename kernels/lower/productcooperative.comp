// Y = alpha·op(A)·op(B) + beta·C, batched, as producttiled.comp has it, of factors
// that hold float16: four subgroups own a tile of two times two fragments each,
// bring slabs of A and B into the group's memory, and multiply them by
// cooperative matrices. Sums are float32, over k in ascending order by fragments.
//
// CONV: a convolution or one of its gradients, whose image is gathered as it is brought, as producttiled.comp has it.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

#ifdef CONV
layout(local_size_x_id = 16) in;
layout(constant_id = 0) const uint BIAS = 0;
layout(constant_id = 16) const uint LOCAL = 32;
layout(constant_id = 17) const uint M = 8;
layout(constant_id = 18) const uint N = 8;
layout(constant_id = 19) const uint K = 8;
const uint FOURS_A = 0, FOURS_B = 0;
//gather.glsl
#else
layout(local_size_x_id = 5) in;
layout(constant_id = 0) const uint TRANS_B = 0; // element (p, j) of B is at j·ldb + p, not p·ldb + j
layout(constant_id = 1) const uint BIAS = 0;    // C is added (1), or what the sums begin with (2)
layout(constant_id = 2) const uint ALONG_I = 0; // A's neighbours lie along i, not along p
layout(constant_id = 3) const uint TABLE = 0;   // where B's lines begin is in a table
layout(constant_id = 4) const uint PLACES = 0;  // Y's columns are places of an image
layout(constant_id = 5) const uint LOCAL = 32;
layout(constant_id = 6) const uint M = 8; // of a fragment: rows,
layout(constant_id = 7) const uint N = 8; // columns
layout(constant_id = 8) const uint K = 8; // and terms
layout(constant_id = 9) const uint FOURS_A = 0;  // A's neighbours are loaded by fours,
layout(constant_id = 10) const uint FOURS_B = 0; // and B's

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
	uint width, whole;        // places of a line, and those of them that are there
	uint lineStep, placeStep;  // from a line of Y to the next, from a place to the next
};
#endif

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) readonly buffer C { float c[]; };
#ifndef CONV
layout(binding = 4) readonly buffer Lines { uint lines[]; };
#endif
layout(binding = 1) readonly buffer A4 { vec4 a4[]; };
layout(binding = 2) readonly buffer B4 { vec4 b4[]; };

// A side of the group has SIDE subgroups, and each of those EACH fragments, which is a variant: sums are the same.
#define SIDE 2
const uint ROWS = SIDE * EACH * M, COLUMNS = SIDE * EACH * N, SLAB = 2 * K;
const uint EACH_A = FOURS_A != 0 ? 4 : 1, EACH_B = FOURS_B != 0 ? 4 : 1; // at a time
// Room behind the lines keeps them out of each other's banks.
const uint LINE_A = SLAB + 8, LINE_B = COLUMNS + 8;
shared float16_t slabA[ROWS * LINE_A], slabB[SLAB * LINE_B];
shared float fragments[SIDE * SIDE * M * N];

void main() {
	uint row = gl_WorkGroupID.y * ROWS;
#ifdef CONV
	uint tiles = (n + COLUMNS - 1) / COLUMNS, column = gl_WorkGroupID.x % tiles * COLUMNS, some = gl_WorkGroupID.x / tiles;
	uint begin = some * part, end = min(k, begin + part);
	uint atA = fromA + gl_WorkGroupID.z * groupA, atB = fromB + gl_WorkGroupID.z * groupB;
	uint atY = fromY + gl_WorkGroupID.z * groupY + some * partY;
	// Of what an invocation brings of A the term stays the same, and of B the place.
	const uint stepA = LOCAL / SLAB, stepB = TAPS != 0 ? LOCAL / COLUMNS : LOCAL / SLAB;
	uint invocation = gl_LocalInvocationIndex;
	ivec3 meets;
	uint here;
	if (TAPS != 0) here = place(column + invocation % COLUMNS, meets);
#define OF_C(r, s) (atY + (r) * ldy + (s))
#else
	const uint begin = 0;
	uint end = k;
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = fromA + z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = fromB + z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint atY = fromY + z0 * sy[0] + z1 * sy[1] + z2 * sy[2];
	uint column = gl_WorkGroupID.x * COLUMNS;
#define OF_C(r, s) (fromC + z2 * cz + (r) * ci + (s) * cj)
#endif
	// Where a subgroup's fragments begin in the tile.
	uint me = gl_SubgroupID, mine = me * M * N;
	uint down = me / SIDE * EACH * M, across = me % SIDE * EACH * N;

	coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sum[EACH][EACH];
	[[unroll]] for (int i = 0; i < EACH; i++)
		[[unroll]] for (int j = 0; j < EACH; j++) {
			sum[i][j] = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0);
			if (BIAS != 2) continue;
			for (uint e = gl_SubgroupInvocationID; e < M * N; e += gl_SubgroupSize) {
				uint r = row + down + i * M + e / N, s = column + across + j * N + e % N;
				fragments[mine + e] = r < m && s < n ? c[OF_C(r, s)] : 0;
			}
			barrier();
			coopMatLoad(sum[i][j], fragments, mine, N, gl_CooperativeMatrixLayoutRowMajor);
			barrier();
		}
	for (uint p0 = begin; p0 < end; p0 += SLAB) {
#ifdef CONV
		uint p = invocation % SLAB, term = termOfA(p0 + p);
		for (uint i = invocation / SLAB; i < ROWS; i += stepA)
			slabA[i * LINE_A + p] = float16_t(row + i < m && p0 + p < end ? a[atA + (row + i) * ai + term] : 0);
		if (TAPS == 0) here = place(p0 + p, meets);
		for (uint e = TAPS != 0 ? invocation / COLUMNS : invocation / SLAB; e < (TAPS != 0 ? SLAB : COLUMNS); e += stepB) {
			uint q = TAPS != 0 ? e : p, j = TAPS != 0 ? invocation % COLUMNS : e;
			ivec3 met;
			uint from = tap(TAPS != 0 ? p0 + q : column + j, met);
			met += meets;
			bool there = column + j < n && p0 + q < end && (INSIDE != 0 || all(lessThan(uvec3(met), uvec3(size[0], size[1], size[2]))));
			slabB[q * LINE_B + j] = float16_t(there ? b[atB + from + here] : 0);
		}
#else
		// Neighbours in memory are neighbours in the group. Fours are there as a whole
		// or not at all.
		for (uint e = gl_LocalInvocationIndex * EACH_A; e < ROWS * SLAB; e += LOCAL * EACH_A) {
			uint i = ALONG_I != 0 ? e % ROWS : e / SLAB, p = ALONG_I != 0 ? e / ROWS : e % SLAB;
			bool there = row + i < m && p0 + p < k;
			uint from = atA + (row + i) * ai + (p0 + p) * ap, to = i * LINE_A + p, step = ALONG_I != 0 ? LINE_A : 1;
			if (FOURS_A == 0) slabA[to] = float16_t(there ? a[from] : 0);
			else {
				f16vec4 v = f16vec4(0);
				if (there) v = f16vec4(a4[from / 4]);
				[[unroll]] for (int q = 0; q < 4; q++) slabA[to + q * step] = v[q];
			}
		}
		for (uint e = gl_LocalInvocationIndex * EACH_B; e < SLAB * COLUMNS; e += LOCAL * EACH_B) {
			uint j = TRANS_B == 0 ? e % COLUMNS : e / SLAB, p = TRANS_B == 0 ? e / COLUMNS : e % SLAB;
			bool there = column + j < n && p0 + p < k;
			uint along = TRANS_B == 0 ? column + j : p0 + p, line = TRANS_B == 0 ? p0 + p : column + j;
			if (TABLE != 0) line = lines[there ? line : 0];
			else line *= ldb;
			uint from = atB + line + along, to = p * LINE_B + j, step = TRANS_B == 0 ? 1 : LINE_B;
			if (FOURS_B == 0) slabB[to] = float16_t(there ? b[from] : 0);
			else {
				f16vec4 v = f16vec4(0);
				if (there) v = f16vec4(b4[from / 4]);
				[[unroll]] for (int q = 0; q < 4; q++) slabB[to + q * step] = v[q];
			}
		}
#endif
		barrier();
		for (uint p = 0; p < SLAB; p += K) {
			coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> f[EACH];
			coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> g[EACH];
			[[unroll]] for (int i = 0; i < EACH; i++) {
				coopMatLoad(f[i], slabA, (down + i * M) * LINE_A + p, LINE_A, gl_CooperativeMatrixLayoutRowMajor);
				coopMatLoad(g[i], slabB, p * LINE_B + across + i * N, LINE_B, gl_CooperativeMatrixLayoutRowMajor);
			}
			[[unroll]] for (int i = 0; i < EACH; i++)
				[[unroll]] for (int j = 0; j < EACH; j++) sum[i][j] = coopMatMulAdd(f[i], g[j], sum[i][j]);
		}
		barrier();
	}
	[[unroll]] for (int i = 0; i < EACH; i++)
		[[unroll]] for (int j = 0; j < EACH; j++) {
			coopMatStore(sum[i][j], fragments, mine, N, gl_CooperativeMatrixLayoutRowMajor);
			barrier();
			for (uint e = gl_SubgroupInvocationID; e < M * N; e += gl_SubgroupSize) {
				uint r = row + down + i * M + e / N, s = column + across + j * N + e % N;
				if (r >= m || s >= n) continue;
#ifdef CONV
				float v = fragments[mine + e];
				if (BIAS == 1) v += c[fromC + gl_WorkGroupID.z * m + r];
				uint to = atY + s;
				if (TAPS != 0) {
					uvec3 where;
					uint of = samples(s, where);
					to = atY + of * ys + where.x * yz + where.y * yy + where.z * yx;
				}
				y[to + r * ldy] = v;
#else
				float v = alpha * fragments[mine + e];
				if (BIAS == 1) v += beta * c[OF_C(r, s)];
				if (PLACES != 0 && s % width >= whole) continue;
				y[atY + r * ldy + (PLACES != 0 ? s / width * lineStep + s % width * placeStep : s)] = v;
#endif
			}
			barrier();
		}
}
