// Lamb, in place: p, and its states m and v. PASS 0: a subgroup owns a part of the
// elements, brings their states up and sums the squares of p and of the direction.
// PASS 1: one subgroup makes the rate of all parts' sums. PASS 2: an invocation owns
// an element, and goes.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint SCALE = 0; // there is a scale for gradients

layout(push_constant) uniform Push {
	uint n, parts;       // that are seen
	uint each, at;       // elements of a part; the number of the first part that is seen
	uint begin, all;     // where that begins; parts of all
	float decay, epsilon, keep1, beta2, keep2; // 1 − β₁, β₂, 1 − β₂
	float log1, log2;                          // ln β₁, ln β₂
};

layout(binding = 0) buffer P { float p[]; };
layout(binding = 1) readonly buffer G { float g[]; };
layout(binding = 2) readonly buffer Rate { float rate[]; };
layout(binding = 3) readonly buffer Scale { float scale[]; };
layout(binding = 4) readonly buffer Step { uint stepped[]; };
layout(binding = 5) buffer M { float m[]; };
layout(binding = 6) buffer V { float v[]; };
layout(binding = 7) buffer Work { float work[]; }; // two sums of each part, then the rate

float oneMinusExp(float x) {
	if (x > -0.3) return -x * (1 + x * (0.5 + x * (0.166666667 + x * (0.0416666667 + x * (0.00833333333 + x * 0.00138888889)))));
	return 1 - exp(x);
}

float direction(uint i) {
	float now = float(stepped[0]);
	return m[i] / oneMinusExp(now * log1) / (sqrt(v[i] / oneMinusExp(now * log2)) + epsilon) + decay * p[i];
}

void main() {
	if (SCALE != 0 && scale[0] < 0) return;
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	if (PASS == 2) {
		uint i = group * LOCAL + gl_LocalInvocationIndex;
		if (i < n) p[i] -= work[2 * all] * direction(i);
		return;
	}
	uint lane = gl_SubgroupInvocationID, step = gl_SubgroupSize;
	float size = 0, length = 0;
	if (PASS == 1) {
		if (gl_SubgroupID != 0) return;
		for (uint k = lane; k < all; k += step) {
			size += work[2 * k];
			length += work[2 * k + 1];
		}
		size = sqrt(subgroupAdd(size));
		length = sqrt(subgroupAdd(length));
		if (subgroupElect()) work[2 * all] = rate[0] * (size == 0 || length == 0 ? 1 : size / length);
		return;
	}
	uint part = group * gl_NumSubgroups + gl_SubgroupID;
	if (part >= parts) return;
	uint to = min(begin + (part + 1) * each, n);
	for (uint block = begin + part * each; block < to; block += 32 * step) {
		float sizes = 0, lengths = 0;
		for (uint i = block + lane; i < min(block + 32 * step, to); i += step) {
			float d = SCALE != 0 ? g[i] * scale[0] : g[i];
			m[i] += keep1 * (d - m[i]);
			v[i] = beta2 * v[i] + keep2 * d * d;
			float u = direction(i);
			sizes += p[i] * p[i];
			lengths += u * u;
		}
		size += sizes;
		length += lengths;
	}
	size = subgroupAdd(size);
	length = subgroupAdd(length);
	if (subgroupElect()) {
		work[2 * (at + part)] = size;
		work[2 * (at + part) + 1] = length;
	}
}
