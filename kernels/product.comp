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
layout(binding = 2) readonly buffer B2 { uint64_t b2[]; };
vec2 pair(uint at) { return uintBitsToFloat(unpack32(b2[at >> 1])); }
#else
vec2 pair(uint at) { return vec2(b[at], b[at + 1]); }
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
	uint p = 0;
	for (; p + 8 <= k; p += 8) {
		uint mine = (p + (lane & 7)) * ap;
		[[unroll]] for (int r = 0; r < ROWS; r++) part[r] = a[rows[r] + mine];
		if (TRANS_B != 0) {
			[[unroll]] for (int l = 0; l < 8; l += 2) {
				vec2 u = pair(atB + j0 * ldb + p + l), v = pair(atB + j1 * ldb + p + l);
				multiply(l, vec2(u.x, v.x));
				multiply(l + 1, vec2(u.y, v.y));
			}
		} else {
			[[unroll]] for (int l = 0; l < 8; l++) {
#ifdef PAIRS
				multiply(l, pair(atB + (p + l) * ldb + j0));
#else
				multiply(l, vec2(b[atB + (p + l) * ldb + j0], b[atB + (p + l) * ldb + j1]));
#endif
			}
		}
	}
	if (p < k) {
		uint mine = min(p + (lane & 7), k - 1) * ap;
		[[unroll]] for (int r = 0; r < ROWS; r++) part[r] = a[rows[r] + mine];
		[[unroll]] for (int l = 0; l < 7; l++) {
			if (p + l < k) {
				if (TRANS_B != 0)
					multiply(l, vec2(b[atB + j0 * ldb + p + l], b[atB + j1 * ldb + p + l]));
				else
					multiply(l, vec2(b[atB + (p + l) * ldb + j0], b[atB + (p + l) * ldb + j1]));
			}
		}
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
