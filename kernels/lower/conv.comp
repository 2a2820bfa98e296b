// Convolutions: x is [N, group·inner, in…], y [N, group·outer, out…], the filters
// [group·outer, inner, kernel…], with three spatial axes. Output o of an axis
// meets input o·stride + k·dilation − pad by tap k.
//
// SIDE 0: an invocation owns a place of y in TILE channels of one group; 1: a
// place of x in TILE channels; 2: a tap of TILE filters, and adds up the batch's
// lines in order. The invocations of a group have their channels in common: a
// lane loads one channel's element of B and hands it round, so none of them
// leaves out a turn or returns early. Each broadcast is a statement of its own:
// inside ?: it would be a branch that only some lanes take, where it is undefined.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 64;
layout(constant_id = 1) const uint SIDE = 0;
layout(constant_id = 2) const uint BIAS = 0;
layout(constant_id = 3) const uint STRIDES = 1; // some stride is not 1; divisions are slow

layout(push_constant) uniform Push {
	int n, group, inner, outer;
	int si[3], so[3], sk[3]; // sizes of in, out, kernel
	int stride[3], dilation[3], pad[3];
};

layout(binding = 0) buffer Z { float z[]; };          // what is computed
layout(binding = 1) readonly buffer A { float a[]; }; // x, y, x
layout(binding = 2) readonly buffer B { float b[]; }; // filters, filters, y
layout(binding = 3) readonly buffer C { float bias[]; }; // filters: what their sums go on from

#define TILE 16
// Of each channel of a tile: its number, and the part and lane that load B's
// element for it. A sum has a name of its own, no place in an array: a driver that
// runs lanes by vectors keeps an array in memory, and writes it under a mask at every
// step.
#define EACH(f) \
	f(0, 0, 0) f(1, 0, 1) f(2, 0, 2) f(3, 0, 3) f(4, 0, 4) f(5, 0, 5) f(6, 0, 6) f(7, 0, 7) \
	f(8, 1, 0) f(9, 1, 1) f(10, 1, 2) f(11, 1, 3) f(12, 1, 4) f(13, 1, 5) f(14, 1, 6) f(15, 1, 7)

int volume(int d[3]) { return d[0] * d[1] * d[2]; }

void main() {
	int ins = volume(si), outs = volume(so), taps = volume(sk);
	int mine = SIDE == 1 ? inner : outer, theirs = SIDE == 1 ? outer : inner;
	int places = SIDE == 0 ? outs : SIDE == 1 ? ins : inner * taps;
	int blocks = (places + int(LOCAL) - 1) / int(LOCAL), tiles = (mine + TILE - 1) / TILE;
	// Groups count blocks of places, then tiles of channels, groups and samples.
	int i = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
	int block = i % blocks, tile = i / blocks % tiles, g = i / blocks / tiles % group, s = i / blocks / tiles / group;
	if (s >= (SIDE == 2 ? 1 : n)) return;
	int place = block * int(LOCAL) + int(gl_LocalInvocationIndex), first = tile * TILE;
	// Places and channels beyond the end do the last one's work, and keep it to
	// themselves.
	bool mute = place >= places;
	place = min(place, places - 1);
#define BEGIN(t, h, l) float sum##t = 0;
	EACH(BEGIN)
	// Of B that this lane loads, and hands round.
	int channel0 = min(first + int(gl_SubgroupInvocationID & 7), mine - 1), channel1 = min(first + 8 + int(gl_SubgroupInvocationID & 7), mine - 1);
	if (SIDE == 2) {
		int tap = place % taps, ci = place / taps;
		int kx = tap % sk[2], ky = tap / sk[2] % sk[1], kz = tap / sk[2] / sk[1];
		if (BIAS != 0) {
#define GO_ON(t, h, l) sum##t = bias[((g * outer + min(first + t, outer - 1)) * inner + ci) * taps + tap];
			EACH(GO_ON)
#undef GO_ON
		}
		for (int s = 0; s < n; s++) {
			int x = ((s * group + g) * inner + ci) * ins, y = (s * group + g) * outer * outs;
			for (int oz = 0; oz < so[0]; oz++) {
				int iz = oz * stride[0] + kz * dilation[0] - pad[0];
				for (int oy = 0; oy < so[1]; oy++) {
					int iy = oy * stride[1] + ky * dilation[1] - pad[1];
					bool inside = iz >= 0 && iz < si[0] && iy >= 0 && iy < si[1];
#define LINE(t, h, l) float line##t = 0;
					EACH(LINE)
					for (int ox = 0; ox < so[2]; ox++) {
						int ix = ox * stride[2] + kx * dilation[2] - pad[2];
						int at = (oz * so[1] + oy) * so[2] + ox;
						bool meets = inside && ix >= 0 && ix < si[2];
						float v = a[meets ? x + (iz * si[1] + iy) * si[2] + ix : 0];
						float part0 = b[y + at + channel0 * outs], part1 = b[y + at + channel1 * outs];
#define MULTIPLY(t, h, l) { float w = subgroupBroadcast(part##h, l); line##t = meets ? fma(v, w, line##t) : line##t; }
						EACH(MULTIPLY)
#undef MULTIPLY
					}
#define ADD(t, h, l) sum##t += line##t;
					EACH(ADD)
				}
			}
		}
		if (mute) return;
#define STORE(t, h, l) if (first + t < outer) z[((g * outer + first + t) * inner + ci) * taps + tap] = sum##t;
		EACH(STORE)
#undef STORE
		return;
	}
	bool divides = SIDE == 1 && STRIDES != 0;
	int others = SIDE == 0 ? ins : outs;
	int size[3], other[3];
	[[unroll]] for (int d = 0; d < 3; d++) {
		size[d] = SIDE == 0 ? so[d] : si[d];
		other[d] = SIDE == 0 ? si[d] : so[d];
	}
	int px = place % size[2], py = place / size[2] % size[1], pz = place / size[2] / size[1];
	for (int c = 0; c < theirs; c++) {
		int from = ((s * group + g) * theirs + c) * others;
		int filters = SIDE == 0 ? (g * outer * inner + c) * taps : (g * outer + c) * inner * taps, next = SIDE == 0 ? inner * taps : taps;
		for (int kz = 0; kz < sk[0]; kz++) {
			int qz = SIDE == 0 ? pz * stride[0] + kz * dilation[0] - pad[0] : pz + pad[0] - kz * dilation[0];
			bool inZ = qz >= 0 && (!divides || qz % stride[0] == 0);
			if (divides) qz /= stride[0];
			inZ = inZ && qz < other[0];
			for (int ky = 0; ky < sk[1]; ky++) {
				int qy = SIDE == 0 ? py * stride[1] + ky * dilation[1] - pad[1] : py + pad[1] - ky * dilation[1];
				bool inY = inZ && qy >= 0 && (!divides || qy % stride[1] == 0);
				if (divides) qy /= stride[1];
				inY = inY && qy < other[1];
				for (int kx = 0; kx < sk[2]; kx++) {
					int qx = SIDE == 0 ? px * stride[2] + kx * dilation[2] - pad[2] : px + pad[2] - kx * dilation[2];
					bool inX = inY && qx >= 0 && (!divides || qx % stride[2] == 0);
					if (divides) qx /= stride[2];
					inX = inX && qx < other[2];
					float v = a[inX ? from + (qz * other[1] + qy) * other[2] + qx : 0];
					int at = filters + (kz * sk[1] + ky) * sk[2] + kx;
					float part0 = b[at + channel0 * next], part1 = b[at + channel1 * next];
#define MULTIPLY(t, h, l) { float w = subgroupBroadcast(part##h, l); sum##t = inX ? fma(v, w, sum##t) : sum##t; }
					EACH(MULTIPLY)
				}
			}
		}
	}
	if (mute) return;
#define STORE(t, h, l) \
	if (first + t < mine) { \
		int to = g * mine + first + t; \
		z[(s * group * mine + to) * places + place] = sum##t + (BIAS != 0 ? bias[to] : 0); \
	}
	EACH(STORE)
}
