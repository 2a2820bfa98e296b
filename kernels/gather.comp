// Rows picked by indices, in words, and the gradient of that: with SUMS. An index
// is as wide as STEP words, of which the low one counts; one that is outside makes
// NaN, or adds nothing.
//
// PASS 0: an invocation owns a word of y. PASS 1 clears the marks of the indices;
// PASS 2: a subgroup owns an index, finds where the same one comes next, notes
// that place and marks it as no first. PASS 3: an invocation owns a column of an
// index that is a first, and adds up the rows of its chain in order.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint STEP = 2;

layout(push_constant) uniform Push {
	uint before, n, after, picked; // data is [before, n, after], y [before, picked, after]
	int dropped;                   // an index that counts as outside; −1: none
};

#ifdef SUMS
layout(binding = 0) buffer Y { float y[]; };        // dx
layout(binding = 1) readonly buffer X { float x[]; }; // dy
#else
layout(binding = 0) buffer Y { uint y[]; };
layout(binding = 1) readonly buffer X { uint x[]; };
#endif
layout(binding = 2) readonly buffer Indices { int indices[]; };
layout(binding = 3) buffer Work { uint work[]; };  // next of each, then marks

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
	if (PASS == 1) {
		i = i * LOCAL + gl_LocalInvocationIndex;
		if (i < picked) work[picked + i] = 0;
		return;
	}
	if (PASS == 2) {
		i = i * gl_NumSubgroups + gl_SubgroupID;
		if (i >= picked) return;
		uint mine = row(i), next = picked;
		for (uint k = i + 1; k < picked && next == picked; k += gl_SubgroupSize) {
			uint at = k + gl_SubgroupInvocationID;
			next = subgroupMin(at < picked && row(at) == mine ? at : picked);
		}
		if (subgroupElect()) {
			work[i] = next;
			if (next < picked) work[picked + next] = 1;
		}
		return;
	}
	uint columns = before * after, blocks = (columns + LOCAL - 1) / LOCAL;
	uint k = i / blocks, c = i % blocks * LOCAL + gl_LocalInvocationIndex;
	if (k >= picked || c >= columns || work[picked + k] != 0) return;
	uint r = row(k), b = c / after, a = c % after;
	if (r >= n) return;
	float sum = 0;
	for (; k < picked; k = work[k]) sum += x[(b * picked + k) * after + a];
	y[(b * n + r) * after + a] = sum;
#endif
}
