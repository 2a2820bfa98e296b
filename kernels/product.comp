// Y = alpha·op(A)·op(B) + beta·C, batched. A subgroup owns ROWS rows of as many
// columns as two for each of its lanes: a lane sums its two columns over k in
// ascending order, with A's elements handed round by broadcast, eight of a row
// at a time. The local size is one subgroup, or more of them side by side.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint TRANS_B = 0; // element (p, j) of B is at j·ldb + p, not p·ldb + j
layout(constant_id = 2) const uint BIAS = 0;
layout(constant_id = 3) const uint EVEN_N = 0; // rows of Y can be stored by pairs
layout(constant_id = 4) const uint PAIRS_A = 0; // A can be loaded by pairs along i

layout(push_constant) uniform Push {
	uint m, n, k;
	uint ai, ap; // element (i, p) of A is at i·ai + p·ap
	uint ldb;
	uint batch[2];                    // the inner dims of the batch
	uint sa[3], sb[3];                // strides of the batch, outer first
	uint first;                       // of the batch
	uint ci, cj;                      // strides of C
	float alpha, beta;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) readonly buffer C { float c[]; };
#ifdef PAIRS
// Two floats at once: a driver that loads lane by lane loads half as often.
layout(binding = 0) buffer Y2 { uint64_t y2[]; };
layout(binding = 1) readonly buffer A2 { uint64_t a2[]; };
layout(binding = 2) readonly buffer B2 { uint64_t b2[]; };
vec2 pairA(uint at) { return uintBitsToFloat(unpack32(a2[at])); }
vec2 pairB(uint at) { return uintBitsToFloat(unpack32(b2[at])); }
#endif

#define ROWS 12

float sum0[ROWS], sum1[ROWS], part[ROWS];

void multiply(int lane, vec2 x) {
	[[unroll]] for (int r = 0; r < ROWS; r++) {
		float f = subgroupBroadcast(part[r], lane);
		sum0[r] += f * x.x;
		sum1[r] += f * x.y;
	}
}

void main() {
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint lane = gl_SubgroupInvocationID;
	uint column = (gl_WorkGroupID.x * LOCAL + gl_SubgroupID * gl_SubgroupSize + lane) * 2;
	uint row = gl_WorkGroupID.y * ROWS;
	// Lanes and rows beyond the end work on the last ones, and keep that to
	// themselves.
#ifdef PAIRS
	uint j0 = min(column, TRANS_B != 0 ? n - 1 : n - 2), j1 = min(j0 + 1, n - 1);
#else
	uint j0 = min(column, n - 1), j1 = min(column + 1, n - 1);
#endif
	uint rows[ROWS];
	[[unroll]] for (int r = 0; r < ROWS; r++) {
		sum0[r] = 0;
		sum1[r] = 0;
		rows[r] = atA + min(row + r, m - 1) * ai;
	}
	// Where the two columns are in B, and the way to the next p; by pairs of
	// floats if those are loaded.
	uint c0 = TRANS_B != 0 ? atB + j0 * ldb : atB + j0, c1 = TRANS_B != 0 ? atB + j1 * ldb : atB + j1;
	uint down = TRANS_B != 0 ? 1 : ldb;
	uint p = 0;
#ifdef PAIRS
	uint d0 = c0 >> 1, d1 = c1 >> 1, step = TRANS_B != 0 ? 1 : ldb >> 1;
	uint mine = (lane & 7) * ap, at[ROWS];
	[[unroll]] for (int r = 0; r < ROWS; r++) at[r] = rows[r] + mine;
	if (PAIRS_A != 0) {
		[[unroll]] for (int r = 0; r < ROWS; r += 2) at[r] = (atA + min(row + r, m - 2) + mine) >> 1;
	}
	for (; p + 8 <= k; p += 8) {
		if (PAIRS_A != 0) {
			[[unroll]] for (int r = 0; r < ROWS; r += 2) {
				vec2 two = pairA(at[r]);
				part[r] = two.x;
				part[r + 1] = two.y;
				at[r] += 4 * ap;
			}
		} else {
			[[unroll]] for (int r = 0; r < ROWS; r++) {
				part[r] = a[at[r]];
				at[r] += 8 * ap;
			}
		}
		if (TRANS_B != 0) {
			[[unroll]] for (int l = 0; l < 8; l += 2) {
				vec2 u = pairB(d0 + l / 2), v = pairB(d1 + l / 2);
				multiply(l, vec2(u.x, v.x));
				multiply(l + 1, vec2(u.y, v.y));
			}
			d0 += 4;
			d1 += 4;
		} else {
			[[unroll]] for (int l = 0; l < 8; l++) {
				multiply(l, pairB(d0));
				d0 += step;
			}
		}
	}
#else
	for (; p + 8 <= k; p += 8) {
		uint mine = (p + (lane & 7)) * ap;
		[[unroll]] for (int r = 0; r < ROWS; r++) part[r] = a[rows[r] + mine];
		[[unroll]] for (int l = 0; l < 8; l++) multiply(l, vec2(b[c0 + (p + l) * down], b[c1 + (p + l) * down]));
	}
#endif
	for (; p < k; p += 8) {
		uint mine = min(p + (lane & 7), k - 1) * ap;
		[[unroll]] for (int r = 0; r < ROWS; r++) part[r] = a[rows[r] + mine];
		[[unroll]] for (int l = 0; l < 8; l++)
			if (p + l < k) multiply(l, vec2(b[c0 + (p + l) * down], b[c1 + (p + l) * down]));
	}
	if (column >= n) return;
	[[unroll]] for (int r = 0; r < ROWS; r++) {
		if (row + r >= m) continue;
		vec2 v = alpha * vec2(sum0[r], sum1[r]);
		if (BIAS != 0) v += beta * vec2(c[(row + r) * ci + j0 * cj], c[(row + r) * ci + j1 * cj]);
		uint at = (z * m + row + r) * n + column;
#ifdef PAIRS
		if (EVEN_N != 0) {
			y2[at >> 1] = pack64(floatBitsToUint(v));
			continue;
		}
#endif
		y[at] = v.x;
		if (column + 1 < n) y[at + 1] = v.y;
	}
}
