// Convolutions: x is [N, group·inner, in…], y [N, group·outer, out…], the filters
// [group·outer, inner, kernel…], with three spatial axes. Output o of an axis
// meets input o·stride + k·dilation − pad by tap k.
//
// SIDE 0: an invocation owns a place of y in TILE channels of one group; 1: a
// place of x in TILE channels; 2: a tap of TILE filters, and adds up the batch's
// lines in order.
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint SIDE = 0;
layout(constant_id = 1) const uint BIAS = 0;

layout(push_constant) uniform Push {
	int n, group, inner, outer;
	int si[3], so[3], sk[3]; // sizes of in, out, kernel
	int stride[3], dilation[3], pad[3];
};

layout(binding = 0) buffer Z { float z[]; };          // what is computed
layout(binding = 1) readonly buffer A { float a[]; }; // x, y, x
layout(binding = 2) readonly buffer B { float b[]; }; // filters, filters, y
layout(binding = 3) readonly buffer C { float bias[]; };

#define TILE 8

int volume(int d[3]) { return d[0] * d[1] * d[2]; }

void main() {
	int ins = volume(si), outs = volume(so), taps = volume(sk);
	int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex);
	float sum[TILE];
	[[unroll]] for (int t = 0; t < TILE; t++) sum[t] = 0;
	if (SIDE == 2) {
		// i counts taps of an input channel, then tiles of filters.
		int width = inner * taps, tiles = (outer + TILE - 1) / TILE;
		if (i >= width * tiles * group) return;
		int tap = i % taps, ci = i / taps % inner, tile = i / width;
		int g = tile / tiles, first = tile % tiles * TILE;
		int kx = tap % sk[2], ky = tap / sk[2] % sk[1], kz = tap / sk[2] / sk[1];
		for (int s = 0; s < n; s++) {
			int x = ((s * group + g) * inner + ci) * ins, y = (s * group + g) * outer * outs;
			for (int oz = 0; oz < so[0]; oz++) {
				int iz = oz * stride[0] + kz * dilation[0] - pad[0];
				if (iz < 0 || iz >= si[0]) continue;
				for (int oy = 0; oy < so[1]; oy++) {
					int iy = oy * stride[1] + ky * dilation[1] - pad[1];
					if (iy < 0 || iy >= si[1]) continue;
					float line[TILE];
					[[unroll]] for (int t = 0; t < TILE; t++) line[t] = 0;
					for (int ox = 0; ox < so[2]; ox++) {
						int ix = ox * stride[2] + kx * dilation[2] - pad[2];
						if (ix < 0 || ix >= si[2]) continue;
						float v = a[x + (iz * si[1] + iy) * si[2] + ix];
						int at = (oz * so[1] + oy) * so[2] + ox;
						[[unroll]] for (int t = 0; t < TILE; t++) line[t] += v * b[y + min(first + t, outer - 1) * outs + at];
					}
					[[unroll]] for (int t = 0; t < TILE; t++) sum[t] += line[t];
				}
			}
		}
		[[unroll]] for (int t = 0; t < TILE; t++)
			if (first + t < outer) z[((g * outer + first + t) * inner + ci) * taps + tap] = sum[t];
		return;
	}
	// i counts places, then tiles of channels, groups and samples.
	int mine = SIDE == 0 ? outer : inner, theirs = SIDE == 0 ? inner : outer;
	int places = SIDE == 0 ? outs : ins, others = SIDE == 0 ? ins : outs, tiles = (mine + TILE - 1) / TILE;
	if (i >= places * tiles * group * n) return;
	int place = i % places, tile = i / places % tiles, g = i / places / tiles % group, s = i / places / tiles / group;
	int first = tile * TILE;
	int px, py, pz;
	if (SIDE == 0) {
		px = place % so[2];
		py = place / so[2] % so[1];
		pz = place / so[2] / so[1];
	} else {
		px = place % si[2];
		py = place / si[2] % si[1];
		pz = place / si[2] / si[1];
	}
	for (int c = 0; c < theirs; c++) {
		int from = ((s * group + g) * theirs + c) * others;
		for (int kz = 0; kz < sk[0]; kz++) {
			int qz = SIDE == 0 ? pz * stride[0] + kz * dilation[0] - pad[0] : pz + pad[0] - kz * dilation[0];
			if (SIDE == 1 && qz % stride[0] != 0) continue;
			if (SIDE == 1) qz /= stride[0];
			if (qz < 0 || qz >= (SIDE == 0 ? si[0] : so[0])) continue;
			for (int ky = 0; ky < sk[1]; ky++) {
				int qy = SIDE == 0 ? py * stride[1] + ky * dilation[1] - pad[1] : py + pad[1] - ky * dilation[1];
				if (SIDE == 1 && qy % stride[1] != 0) continue;
				if (SIDE == 1) qy /= stride[1];
				if (qy < 0 || qy >= (SIDE == 0 ? si[1] : so[1])) continue;
				for (int kx = 0; kx < sk[2]; kx++) {
					int qx = SIDE == 0 ? px * stride[2] + kx * dilation[2] - pad[2] : px + pad[2] - kx * dilation[2];
					if (SIDE == 1 && qx % stride[2] != 0) continue;
					if (SIDE == 1) qx /= stride[2];
					if (qx < 0 || qx >= (SIDE == 0 ? si[2] : so[2])) continue;
					float v = a[from + (SIDE == 0 ? (qz * si[1] + qy) * si[2] + qx : (qz * so[1] + qy) * so[2] + qx)];
					int tap = (kz * sk[1] + ky) * sk[2] + kx;
					[[unroll]] for (int t = 0; t < TILE; t++) {
						int m = min(first + t, mine - 1);
						sum[t] += v * b[SIDE == 0 ? ((g * outer + m) * inner + c) * taps + tap : ((g * outer + c) * inner + m) * taps + tap];
					}
				}
			}
		}
	}
	[[unroll]] for (int t = 0; t < TILE; t++) {
		if (first + t >= mine) continue;
		int channel = g * mine + first + t;
		z[(s * group * mine + channel) * places + place] = sum[t] + (BIAS != 0 ? bias[channel] : 0);
	}
}
