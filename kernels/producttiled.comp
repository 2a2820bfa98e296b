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
layout(constant_id = 3) const uint TABLE = 0;   // where B's lines begin is in a table
layout(constant_id = 4) const uint PLACES = 0;  // Y's columns are places of an image

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

shared float slabA[SLAB][TILE + 1], slabB[SLAB][TILE + 1];

void main() {
	uint z = gl_WorkGroupID.z + first;
	uint z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	uint atA = fromA + z0 * sa[0] + z1 * sa[1] + z2 * sa[2];
	uint atB = fromB + z0 * sb[0] + z1 * sb[1] + z2 * sb[2];
	uint atY = fromY + z0 * sy[0] + z1 * sy[1] + z2 * sy[2];
	uint me = gl_LocalInvocationIndex, x = me % SIDE, w = me / SIDE;
	uint column = gl_WorkGroupID.x * TILE, row = gl_WorkGroupID.y * TILE;
	float sum[4][4];
	[[unroll]] for (int i = 0; i < 4; i++)
		[[unroll]] for (int j = 0; j < 4; j++) {
			uint r = row + w + i * SIDE, s = column + x + j * SIDE;
			sum[i][j] = BIAS == 2 && r < m && s < n ? c[fromC + z2 * cz + r * ci + s * cj] : 0;
		}
	for (uint p0 = 0; p0 < k; p0 += SLAB) {
		// Neighbours in memory are neighbours in the group.
		[[unroll]] for (int q = 0; q < TILE * SLAB / (SIDE * SIDE); q++) {
			uint e = q * SIDE * SIDE + me;
			uint i = ALONG_I != 0 ? e % TILE : e / SLAB, p = ALONG_I != 0 ? e / TILE : e % SLAB;
			slabA[p][i] = row + i < m && p0 + p < k ? a[atA + (row + i) * ai + (p0 + p) * ap] : 0;
			uint j = TRANS_B == 0 ? e % TILE : e / SLAB;
			p = TRANS_B == 0 ? e / TILE : e % SLAB;
			bool there = column + j < n && p0 + p < k;
			uint along = TRANS_B == 0 ? column + j : p0 + p, line = TRANS_B == 0 ? p0 + p : column + j;
			if (TABLE != 0) line = lines[there ? line : 0];
			else line *= ldb;
			slabB[p][j] = there ? b[atB + line + along] : 0;
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
			if (BIAS == 1) v += beta * c[fromC + z2 * cz + r * ci + s * cj];
			if (PLACES != 0 && s % width >= whole) continue;
			y[atY + r * ldy + (PLACES != 0 ? s / width * lineStep + s % width * placeStep : s)] = v;
		}
	}
}
