// Lines along an axis, inner apart: softmax and log-softmax and their gradients.
// A subgroup owns a line; its lanes share out the elements, and each writes only
// those that it has read, so y may lie over an input.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint RULE = 0; // 0 softmax, 1 log-softmax, 2 and 3 their gradients from dy and y, 4 softmax or 0 where that is no number

layout(push_constant) uniform Push { uint lines, n, inner; };

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; }; // x or dy
layout(binding = 2) readonly buffer B { float b[]; }; // y

void main() {
	uint line = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (line >= lines) return;
	uint at = line / inner * inner * n + line % inner + gl_SubgroupInvocationID * inner;
	uint step = gl_SubgroupSize * inner, end = line / inner * inner * n + line % inner + n * inner;
	float sum = 0;
	if (RULE == 2 || RULE == 3) {
		for (uint i = at; i < end; i += step) sum += RULE == 2 ? a[i] * b[i] : a[i];
		sum = subgroupAdd(sum);
		for (uint i = at; i < end; i += step) y[i] = RULE == 2 ? b[i] * (a[i] - sum) : a[i] - exp(b[i]) * sum;
		return;
	}
	float top = uintBitsToFloat(0xff800000);
	for (uint i = at; i < end; i += step) top = max(top, a[i]);
	top = subgroupMax(top);
	for (uint i = at; i < end; i += step) {
		float e = exp(a[i] - top);
		sum += e;
		if (RULE != 1) y[i] = e;
	}
	sum = subgroupAdd(sum);
	float scale = 1 / sum, shift = log(sum);
	for (uint i = at; i < end; i += step) {
		if (RULE == 4 && (isnan(sum) || isnan(top) || isinf(scale))) y[i] = 0;
		else if (RULE != 1) y[i] *= scale;
		else y[i] = a[i] - top - shift;
	}
}
