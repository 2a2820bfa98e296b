// Lines along an axis, inner apart: softmax and log-softmax and their gradients.
// A subgroup owns a line; its lanes share out the elements, and each writes only
// those that it has read, so y may lie over an input. V is a float, or a vec4 of
// neighbours along a line, where inner is 1 and lines are whole fours.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint RULE = 0; // 0 softmax, 1 log-softmax, 2 and 3 their gradients from dy and y, 4 softmax or 0 where that is no number

layout(push_constant) uniform Push { uint lines, n, inner; }; // n is of V

layout(binding = 0) buffer Y { V y[]; };
layout(binding = 1) readonly buffer A { V a[]; }; // x or dy
layout(binding = 2) readonly buffer B { V b[]; }; // y

float total(float v) { return subgroupAdd(v); }
float total(vec4 v) { return subgroupAdd((v.x + v.y) + (v.z + v.w)); }
float most(float v) { return subgroupMax(v); }
float most(vec4 v) { return subgroupMax(max(max(v.x, v.y), max(v.z, v.w))); }

void main() {
	uint line = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (line >= lines) return;
	uint at = line / inner * inner * n + line % inner + gl_SubgroupInvocationID * inner;
	uint step = gl_SubgroupSize * inner, end = line / inner * inner * n + line % inner + n * inner;
	V terms = V(0);
	if (RULE == 2 || RULE == 3) {
		for (uint i = at; i < end; i += step) terms += RULE == 2 ? a[i] * b[i] : a[i];
		float sum = total(terms);
		for (uint i = at; i < end; i += step) y[i] = RULE == 2 ? b[i] * (a[i] - sum) : a[i] - exp(b[i]) * sum;
		return;
	}
	V tops = V(uintBitsToFloat(0xff800000));
	for (uint i = at; i < end; i += step) tops = max(tops, a[i]);
	float top = most(tops);
	for (uint i = at; i < end; i += step) terms += exp(a[i] - top);
	float sum = total(terms), scale = 1 / sum, shift = log(sum);
	bool none = RULE == 4 && (isnan(sum) || isnan(top) || isinf(scale));
	for (uint i = at; i < end; i += step) {
		if (none) y[i] = V(0);
		else if (RULE != 1) y[i] = exp(a[i] - top) * scale;
		else y[i] = a[i] - top - shift;
	}
}
