// Rows picked by indices, in words, and the gradient of that: with SUMS. An index
// is as wide as STEP words, of which the low one counts; one that is outside makes
// NaN, or adds nothing.
//
// PASS 0: an invocation owns a word of y. PASS 1: no row of dx has an index. PASS 2: an
// invocation owns every so many rows and goes through all indices, the last first, and
// puts those of its rows before the ones that it has, so that each row has a chain of
// its indices in order. PASS 3: an invocation owns an element of dx, or four neighbours
// with WIDE, and adds up its row's chain; most chains are empty.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint STEP = 2;
layout(constant_id = 3) const uint WIDE = 0;

layout(push_constant) uniform Push {
	uint before, n, after, picked; // data is [before, n, after], y [before, picked, after]
	int dropped;                   // an index that counts as outside; −1: none
};

#ifdef SUMS
layout(binding = 0) buffer Y { float y[]; };        // dx
layout(binding = 1) readonly buffer X { float x[]; }; // dy
layout(binding = 0) buffer Y4 { vec4 y4[]; };
layout(binding = 1) readonly buffer X4 { vec4 x4[]; };
#else
layout(binding = 0) buffer Y { uint y[]; };
layout(binding = 1) readonly buffer X { uint x[]; };
#endif
layout(binding = 2) readonly buffer Indices { int indices[]; };
layout(binding = 3) buffer Work { uint work[]; };   // the first index of each row, then the next of each

uint row(uint i) {
	int v = indices[i * STEP];
	if (dropped >= 0 && v == dropped) return n;
	return uint(v < 0 ? v + int(n) : v);
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x);
#ifndef SUMS
	if (PASS == 0) {
		i = i * LOCAL + gl_LocalInvocationIndex;
		if (i >= before * picked * after) return;
		uint a = i % after, k = i / after % picked, b = i / after / picked, r = row(k);
		y[i] = r < n ? x[(b * n + r) * after + a] : 0x7fc00000;
		return;
	}
#else
	uint own = i * LOCAL + gl_LocalInvocationIndex;
	if (PASS == 1) {
		if (own < n) work[own] = picked;
		return;
	}
	if (PASS == 2) {
		uint owners = gl_NumWorkGroups.x * LOCAL, lane = gl_SubgroupInvocationID;
		for (int end = int(picked); end > 0; end -= int(gl_SubgroupSize)) {
			// Lanes load one each, and all see each.
			uint r = end > int(lane) ? row(end - 1 - lane) : n;
			for (uint k = 0; k < gl_SubgroupSize; k++) {
				uint at = subgroupBroadcast(r, k);
				if (at < n && at % owners == own) {
					work[n + end - 1 - k] = work[at];
					work[at] = end - 1 - k;
				}
			}
		}
		return;
	}
	uint some = WIDE != 0 ? after / 4 : after, b = own / some, a = own % some, r = b % n;
	if (b >= before * n) return;
	uint from = b / n * picked;
	if (WIDE != 0) {
		vec4 sum = vec4(0);
		for (uint k = work[r]; k < picked; k = work[n + k]) sum += x4[(from + k) * some + a];
		y4[own] = sum;
		return;
	}
	float sum = 0;
	for (uint k = work[r]; k < picked; k = work[n + k]) sum += x[(from + k) * some + a];
	y[own] = sum;
#endif
}
