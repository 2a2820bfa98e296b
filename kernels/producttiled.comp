// Y = alpha·op(A)·op(B) + beta·C, batched, as product.comp has it, for devices
// whose groups share fast memory: a group owns TILE × TILE elements of Y and brings
// slabs of A and B there; an invocation sums 4 × 4 elements, a quarter of a
// tile apart, over k in ascending order.
#version 450
#extension GL_EXT_control_flow_attributes : require

#define SIDE (TILE / 4)
#define SLAB 16

layout(local_size_x = SIDE * SIDE) in;
layout(constant_id = 0) const uint TRANS_B = 0; // element (p, j) of B is at j·ldb + p, not p·ldb + j
layout(constant_id = 1) const uint BIAS = 0;    // C is added (1), or what the sums begin with (2)
layout(constant_id = 2) const uint ALONG_I = 0; // A's neighbours lie along i, not along p

layout(push_constant) uniform Push {
	uint m, n, k;
	uint ai, ap; // element (i, p) of A is at i·ai + p·ap
	uint ldb;
	uint batch[2];     // the inner dims of the batch
	uint sa[3], sb[3]; // strides of the batch, outer first
	uint first;        // of the batch
	uint stepY, ldy;   // from a matrix of Y to the next, from a row to the next
	uint ci, cj;       // strides of C
	uint stepC;        // from a matrix of it to the next
	float alpha, beta;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) readonly buffer C { float c[]; };

shared float slabA[SLAB][TILE + 1], slabB[SLAB][TILE + 1];

void main() {
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint me = gl_LocalInvocationIndex, x = me % SIDE, w = me / SIDE;
	uint column = gl_WorkGroupID.x * TILE, row = gl_WorkGroupID.y * TILE;
	float sum[4][4];
	[[unroll]] for (int i = 0; i < 4; i++)
		[[unroll]] for (int j = 0; j < 4; j++) {
			uint r = row + w + i * SIDE, s = column + x + j * SIDE;
			sum[i][j] = BIAS == 2 && r < m && s < n ? c[z * stepC + r * ci + s * cj] : 0;
		}
	for (uint p0 = 0; p0 < k; p0 += SLAB) {
		// Neighbours in memory are neighbours in the group.
		[[unroll]] for (int q = 0; q < TILE * SLAB / (SIDE * SIDE); q++) {
			uint e = q * SIDE * SIDE + me;
			uint i = ALONG_I != 0 ? e % TILE : e / SLAB, p = ALONG_I != 0 ? e / TILE : e % SLAB;
			slabA[p][i] = row + i < m && p0 + p < k ? a[atA + (row + i) * ai + (p0 + p) * ap] : 0;
			uint j = TRANS_B == 0 ? e % TILE : e / SLAB;
			p = TRANS_B == 0 ? e / TILE : e % SLAB;
			uint at = TRANS_B == 0 ? (p0 + p) * ldb + column + j : (column + j) * ldb + p0 + p;
			slabB[p][j] = column + j < n && p0 + p < k ? b[atB + at] : 0;
		}
		barrier();
		for (int p = 0; p < SLAB; p++) {
			float f[4], g[4];
			[[unroll]] for (int i = 0; i < 4; i++) {
				f[i] = slabA[p][w + i * SIDE];
				g[i] = slabB[p][x + i * SIDE];
			}
			[[unroll]] for (int i = 0; i < 4; i++)
				[[unroll]] for (int j = 0; j < 4; j++) sum[i][j] = fma(f[i], g[j], sum[i][j]);
		}
		barrier();
	}
	[[unroll]] for (int i = 0; i < 4; i++) {
		uint r = row + w + i * SIDE;
		[[unroll]] for (int j = 0; j < 4; j++) {
			uint s = column + x + j * SIDE;
			if (r >= m || s >= n) continue;
			float v = alpha * sum[i][j];
			if (BIAS == 1) v += beta * c[z * stepC + r * ci + s * cj];
			y[z * stepY + r * ldy + s] = v;
		}
	}
}
