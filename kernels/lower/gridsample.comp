// GridSample and its gradients. Data is [items, channels, size…], a grid [items, points,
// rank], and y [items, channels, points]; there are three axes, of which the first may
// have length 1 and no coordinate.
//
// PASS 0: an invocation owns an element of y. PASS 1: one of dgrid. PASS 2: an invocation
// owns a point and writes down its taps: where each is in the plane, or the plane's size
// outside, and its weight. PASS 3: no element of a plane has a tap. PASS 4: an invocation
// owns every so many elements of a plane, goes through all taps of the item, the last
// first, and puts those of its elements before the ones that it has. PASS 5: an invocation
// owns an element of dX, and adds up its chain of taps.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 64;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint RANK = 2;
layout(constant_id = 3) const uint MODE = 0;    // linear, nearest, cubic
layout(constant_id = 4) const uint PADDING = 0; // zeros, border, reflection
layout(constant_id = 5) const uint CORNERS = 0;

layout(push_constant) uniform Push {
	uint first, items;            // the items [first, first + items)
	uint channels, points;
	uint depth, height, width;
	uint owners;                  // of each item's elements
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer D { float d[]; };    // dY
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) readonly buffer Grid { float grid[]; };
layout(binding = 4) buffer Work { uint work[]; }; // of each item: the first tap of each element, the next of each tap, their places
layout(binding = 5) buffer Weights { float weights[]; };

const uint EACH = MODE == 0 ? 2 : MODE == 1 ? 1 : 4;

struct Taps { int at[4]; float weight[4]; float slope[4]; };

uint size(uint axis) { return axis == 0 ? depth : axis == 1 ? height : width; }

// inside brings a place into [0, n), and says how it moves when the place does.
vec2 inside(float at, uint n) {
	float turn = 1;
	if (PADDING == 0) return vec2(at, turn);
	if (PADDING == 2) {
		float low = CORNERS != 0 ? 0 : -0.5, span = CORNERS != 0 ? float(n - 1) : float(n);
		if (span == 0) return vec2(0);
		at -= low;
		if (at < 0) { at = -at; turn = -1; }
		float times = floor(at / span);
		at -= times * span;
		if (mod(times, 2.0) != 0) { at = span - at; turn = -turn; }
		at += low;
	}
	if (!(at > 0)) return vec2(0);
	if (at >= float(n - 1)) return vec2(float(n - 1), 0);
	return vec2(at, turn);
}

// cubic is the weight of tap i of four around a place f behind the second, and its slope.
vec2 cubic(float f, int i) {
	const float a = -0.75;
	float at = f + 1 - float(i), turn = at < 0 ? -1 : 1;
	at = abs(at);
	if (at <= 1) return vec2(((a + 2) * at - (a + 3)) * at * at + 1, turn * (3 * (a + 2) * at - 2 * (a + 3)) * at);
	return vec2(((a * at - 5 * a) * at + 8 * a) * at - 4 * a, turn * ((3 * a * at - 10 * a) * at + 8 * a));
}

Taps along(uint axis, uint point) {
	Taps t;
	for (uint i = 0; i < 4; i++) { t.at[i] = 0; t.weight[i] = 0; t.slope[i] = 0; }
	if (axis + RANK < 3) {
		t.weight[0] = 1;
		for (uint i = 1; i < EACH; i++) t.at[i] = -1;
		return t;
	}
	uint n = size(axis);
	float place = grid[point * RANK + 2 - axis];
	precise float at = place + 1;
	float scale = CORNERS != 0 ? 0.5 * float(n - 1) : 0.5 * float(n);
	if (CORNERS != 0) {
		at = at / 2;
		at = at * float(n - 1);
	} else {
		at = at * float(n);
		at = at - 1;
		at = at / 2;
	}
	if (MODE != 2) {
		vec2 into = inside(at, n);
		at = into.x;
		scale *= into.y;
	}
	if (!(abs(at) < 1073741824.0)) { at = -4; scale = 0; }
	float base = floor(at), f = at - base;
	if (MODE == 0) {
		t.at[0] = int(base);
		t.at[1] = int(base) + 1;
		t.weight[0] = 1 - f;
		t.weight[1] = f;
		t.slope[0] = -scale;
		t.slope[1] = scale;
	} else if (MODE == 1) {
		t.at[0] = int(roundEven(at));
		t.weight[0] = 1;
	} else {
		for (int i = 0; i < 4; i++) {
			vec2 w = cubic(f, i);
			t.at[i] = int(base) + i - 1;
			if (PADDING != 0) t.at[i] = int(inside(float(t.at[i]), n).x);
			t.weight[i] = w.x;
			t.slope[i] = w.y * scale;
		}
	}
	for (uint i = 0; i < EACH; i++) if (t.at[i] < 0 || t.at[i] >= int(n)) t.at[i] = -1;
	return t;
}

float dataSum(uint plane, Taps z, Taps v, Taps h, uint slope) {
	float sum = 0;
	for (uint i = 0; i < EACH; i++) {
		if (z.at[i] < 0) continue;
		float wz = slope == 0 ? z.slope[i] : z.weight[i];
		for (uint j = 0; j < EACH; j++) {
			if (v.at[j] < 0) continue;
			float wv = wz * (slope == 1 ? v.slope[j] : v.weight[j]);
			for (uint k = 0; k < EACH; k++) {
				if (h.at[k] < 0) continue;
				sum += wv * (slope == 2 ? h.slope[k] : h.weight[k]) * x[plane + (uint(z.at[i]) * height + uint(v.at[j])) * width + uint(h.at[k])];
			}
		}
	}
	return sum;
}

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, own = group * LOCAL + gl_LocalInvocationIndex;
	uint plane = depth * height * width;
	uint each = RANK == 1 ? EACH : RANK == 2 ? EACH * EACH : EACH * EACH * EACH, taps = points * each;
	if (PASS == 0) {
		if (own >= items * channels * points) return;
		uint which = own / points, point = which / channels * points + own % points;
		y[own] = dataSum(which * plane, along(0, point), along(1, point), along(2, point), 3);
		return;
	}
	if (PASS == 1) {
		if (own >= items * points * RANK) return;
		uint point = own / RANK, item = point / points, axis = 2 - own % RANK;
		Taps z = along(0, point), v = along(1, point), h = along(2, point);
		float sum = 0;
		for (uint c = 0; c < channels; c++) {
			uint which = item * channels + c;
			sum += d[which * points + point % points] * dataSum(which * plane, z, v, h, axis);
		}
		y[own] = sum;
		return;
	}
	if (PASS == 2) {
		if (own >= items * points) return;
		uint item = own / points, point = first * points + own, begin = own % points * each;
		Taps z = along(0, point), v = along(1, point), h = along(2, point);
		uint nz = RANK == 3 ? EACH : 1, nv = RANK >= 2 ? EACH : 1, n = 0;
		for (uint i = 0; i < nz; i++)
			for (uint j = 0; j < nv; j++)
				for (uint k = 0; k < EACH; k++) {
					bool within = z.at[i] >= 0 && v.at[j] >= 0 && h.at[k] >= 0;
					work[item * (plane + 2 * taps) + plane + taps + begin + n] =
						within ? (uint(z.at[i]) * height + uint(v.at[j])) * width + uint(h.at[k]) : plane;
					weights[item * taps + begin + n] = z.weight[i] * v.weight[j] * h.weight[k];
					n++;
				}
		return;
	}
	if (PASS == 3) {
		if (own < items * plane) work[own / plane * (plane + 2 * taps) + own % plane] = taps;
		return;
	}
	if (PASS == 4) {
		uint groups = owners / LOCAL, item = group / groups, lane = gl_SubgroupInvocationID;
		if (item >= items) return;
		own = group % groups * LOCAL + gl_LocalInvocationIndex;
		uint heads = item * (plane + 2 * taps), next = heads + plane, places = next + taps;
		for (int end = int(taps); end > 0; end -= int(gl_SubgroupSize)) {
			// Lanes load one each, and all see each.
			uint r = end > int(lane) ? work[places + end - 1 - lane] : plane;
			for (uint k = 0; k < gl_SubgroupSize; k++) {
				uint at = subgroupBroadcast(r, k);
				if (at < plane && at % owners == own) {
					work[next + end - 1 - k] = work[heads + at];
					work[heads + at] = end - 1 - k;
				}
			}
		}
		return;
	}
	if (own >= items * channels * plane) return;
	uint which = own / plane, item = which / channels, heads = item * (plane + 2 * taps);
	uint from = (first * channels + which) * points;
	float sum = 0;
	for (uint k = work[heads + own % plane]; k < taps; k = work[heads + plane + k])
		sum += weights[item * taps + k] * d[from + k / each];
	y[first * channels * plane + own] = sum;
}
