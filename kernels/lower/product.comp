// Y = alpha·op(A)·op(B) + beta·C, batched. A subgroup owns ROWS rows of as many
// columns as two for each of its lanes: a lane sums its two columns over k in
// ascending order, with A's elements handed round by broadcast, eight of a row
// at a time. The local size is one subgroup, or more of them side by side.
//
// A sum has a name of its own, no place in an array: a driver that runs lanes by
// vectors keeps an array in memory, and writes it under a mask at every step.
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
layout(constant_id = 2) const uint BIAS = 0; // C is added (1), or what the sums begin with (2)
#ifdef PAIRS
layout(constant_id = 3) const uint PAIRS_A = 0; // A is loaded one by one (0), by pairs along k (1), by pairs along i (2)
layout(constant_id = 4) const uint PAIRS_B = 0; // B is loaded by pairs
layout(constant_id = 5) const uint PAIRS_Y = 0; // Y is stored by pairs
#else
const uint PAIRS_A = 0, PAIRS_B = 0, PAIRS_Y = 0;
#endif
layout(constant_id = 6) const uint TABLE = 0;  // where B's lines begin is in a table
layout(constant_id = 7) const uint PLACES = 0; // Y's columns are places of an image

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

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) readonly buffer C { float c[]; };
layout(binding = 4) readonly buffer Lines { uint lines[]; };
#ifdef PAIRS
// Two floats at once: a driver that loads lane by lane loads half as often.
layout(binding = 0) buffer Y2 { uint64_t y2[]; };
layout(binding = 1) readonly buffer A2 { uint64_t a2[]; };
layout(binding = 2) readonly buffer B2 { uint64_t b2[]; };
vec2 pairA(uint at) { return uintBitsToFloat(unpack32(a2[at])); }
vec2 pairB(uint at) { return uintBitsToFloat(unpack32(b2[at])); }
void storePair(uint at, vec2 v) { y2[at] = pack64(floatBitsToUint(v)); }
#else
vec2 pairA(uint at) { return vec2(0); }
vec2 pairB(uint at) { return vec2(0); }
void storePair(uint at, vec2 v) {}
#endif

#if ROWS == 12
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define TWO(f) f(0, 1) f(2, 3) f(4, 5) f(6, 7) f(8, 9) f(10, 11)
#elif ROWS == 8
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define TWO(f) f(0, 1) f(2, 3) f(4, 5) f(6, 7)
#else
#define EACH(f) f(0) f(1) f(2) f(3)
#define TWO(f) f(0, 1) f(2, 3)
#endif

void main() {
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = fromA + z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = fromB + z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint atY = fromY + z0 * sy[0] + z1 * sy[1] + z2 * sy[2];
	uint lane = gl_SubgroupInvocationID, eighth = lane & 7;
	uint column = (gl_WorkGroupID.x * LOCAL + gl_SubgroupID * gl_SubgroupSize + lane) * 2;
	uint row = gl_WorkGroupID.y * ROWS;
	// Lanes and rows beyond the end work on the last ones, and keep that to
	// themselves.
	uint j0 = min(column, PAIRS_B != 0 && TRANS_B == 0 ? n - 1 & ~1u : n - 1), j1 = min(j0 + 1, n - 1);
	// Where the two columns are in B, and the way to the next p; by pairs of
	// floats if those are loaded.
	uint c0 = atB + j0, c1 = atB + j1, down = ldb;
	if (TRANS_B != 0) {
		c0 = atB + (TABLE != 0 ? lines[j0] : j0 * ldb);
		c1 = atB + (TABLE != 0 ? lines[j1] : j1 * ldb);
		down = 1;
	}
	const bool tabled = TABLE != 0 && TRANS_B == 0;
	const uint halves = PAIRS_B;
	uint d0 = c0 >> halves, d1 = c1 >> halves, step = TRANS_B != 0 ? 1 : ldb >> halves;
	uint p = 0;

#define BEGIN(r) vec2 sum##r = vec2(0), part##r; uint row##r = atA + min(row + r, m - 1) * ai, at##r;
	EACH(BEGIN)
#define C_AT(r, j) c[fromC + z2 * cz + min(row + r, m - 1) * ci + j * cj]
	if (BIAS == 2) {
#define GO_ON(r) sum##r = vec2(C_AT(r, j0), C_AT(r, j1));
		EACH(GO_ON)
	}

	// B's elements for the next two p: of the first in u, of the second in v. If
	// its lines are in a table, from and l are who has looked up the first.
#define LOAD_B(from, l) \
		vec2 u, v; \
		if (tabled) { \
			uint s = subgroupBroadcast(from, l) >> halves, t = subgroupBroadcast(from, l + 1) >> halves; \
			if (PAIRS_B == 0) { \
				u = vec2(b[d0 + s], b[d1 + s]); \
				v = vec2(b[d0 + t], b[d1 + t]); \
			} else { \
				u = pairB(d0 + s); \
				v = pairB(d0 + t); \
			} \
		} else if (PAIRS_B == 0) { \
			u = vec2(b[d0], b[d1]); \
			v = vec2(b[d0 + step], b[d1 + step]); \
			d0 += 2 * step; \
			d1 += 2 * step; \
		} else if (TRANS_B == 0) { \
			u = pairB(d0); \
			v = pairB(d0 + step); \
			d0 += 2 * step; \
		} else { \
			vec2 x = pairB(d0++), w = pairB(d1++); \
			u = vec2(x.x, w.x); \
			v = vec2(x.y, w.y); \
		}

	if (PAIRS_A == 1) {
#define START(r) at##r = (row##r >> 1) + eighth;
		EACH(START)
		for (; p + 16 <= k; p += 16) {
#define LOAD(r) part##r = pairA(at##r); at##r += 8;
			EACH(LOAD)
			uint low = 0, high = 0;
			if (tabled) {
				low = lines[p + eighth];
				high = lines[p + 8 + eighth];
			}
			[[unroll]] for (int l = 0; l < 8; l++) {
				LOAD_B(l < 4 ? low : high, (2 * l & 7))
#define MULTIPLY_U(r) sum##r = fma(vec2(subgroupBroadcast(part##r.x, l)), u, sum##r);
#define MULTIPLY_V(r) sum##r = fma(vec2(subgroupBroadcast(part##r.y, l)), v, sum##r);
				EACH(MULTIPLY_U)
				EACH(MULTIPLY_V)
			}
		}
#undef LOAD
#undef MULTIPLY_U
#undef MULTIPLY_V
	} else {
		uint mine = eighth * ap;
#define ALONE(r) at##r = row##r + mine;
#define JOINED(r, s) at##r = (atA + min(row + r, m - 2) + mine) >> 1;
		if (PAIRS_A == 0) {
			EACH(ALONE)
		} else {
			TWO(JOINED)
		}
		for (; p + 8 <= k; p += 8) {
#define LOAD(r) part##r.x = a[at##r]; at##r += 8 * ap;
#define LOAD_TWO(r, s) { vec2 x = pairA(at##r); part##r.x = x.x; part##s.x = x.y; at##r += 4 * ap; }
			if (PAIRS_A == 0) {
				EACH(LOAD)
			} else {
				TWO(LOAD_TWO)
			}
			uint near = tabled ? lines[p + eighth] : 0;
			[[unroll]] for (int l = 0; l < 8; l += 2) {
				LOAD_B(near, l)
#define MULTIPLY_U(r) sum##r = fma(vec2(subgroupBroadcast(part##r.x, l)), u, sum##r);
#define MULTIPLY_V(r) sum##r = fma(vec2(subgroupBroadcast(part##r.x, l + 1)), v, sum##r);
				EACH(MULTIPLY_U)
				EACH(MULTIPLY_V)
			}
		}
	}
	// The last few: what is beyond k is zeros, since a turn that is left out would
	// have every sum written under a mask.
	for (; p < k; p += 8) {
		uint last = min(p + eighth, k - 1), mine = last * ap, near = tabled ? lines[last] : last * down;
#define LAST(r) part##r.x = p + eighth < k ? a[row##r + mine] : 0;
		EACH(LAST)
		[[unroll]] for (int l = 0; l < 8; l++) {
			uint s = subgroupBroadcast(near, l);
			vec2 u = PAIRS_B != 0 && TRANS_B == 0 ? pairB(c0 + s >> 1) : vec2(b[c0 + s], b[c1 + s]);
			if (p + l >= k) u = vec2(0);
#define MULTIPLY(r) sum##r = fma(vec2(subgroupBroadcast(part##r.x, l)), u, sum##r);
			EACH(MULTIPLY)
		}
	}
	if (column >= n) return;
	uint to0 = atY + column, to1 = to0 + 1;
	bool is0 = true, is1 = column + 1 < n;
	if (PLACES != 0) {
		to0 = atY + j0 / width * lineStep + j0 % width * placeStep;
		to1 = atY + j1 / width * lineStep + j1 % width * placeStep;
		is0 = j0 % width < whole;
		is1 = is1 && j1 % width < whole;
	}
#define STORE(r) \
	if (row + r < m) { \
		vec2 v = alpha * sum##r; \
		if (BIAS == 1) v += beta * vec2(C_AT(r, j0), C_AT(r, j1)); \
		uint down = (row + r) * ldy; \
		if (PAIRS_Y != 0) storePair(to0 + down >> 1, v); \
		else { \
			if (is0) y[to0 + down] = v.x; \
			if (is1) y[to1 + down] = v.y; \
		} \
	}
	EACH(STORE)
}
