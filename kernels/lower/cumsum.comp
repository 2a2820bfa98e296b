// Running sums along an axis, inner apart. ALONG 1: a subgroup owns a line and
// takes as many elements at once as it has lanes; 0: an invocation owns a line.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint ALONG = 0;
layout(constant_id = 2) const uint EXCLUSIVE = 0;
layout(constant_id = 3) const uint REVERSE = 0;

layout(push_constant) uniform Push { uint lines, n, inner; };

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer X { ELEMENT x[]; };

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	uint line = ALONG != 0 ? group * gl_NumSubgroups + gl_SubgroupID : group * LOCAL + gl_LocalInvocationIndex;
	if (line >= lines) return;
	uint first = line / inner * inner * n + line % inner;
	ELEMENT sum = ELEMENT(0);
#ifdef SCANS
	if (ALONG != 0) {
		for (uint base = 0; base < n; base += gl_SubgroupSize) {
			uint i = base + gl_SubgroupInvocationID;
			uint at = first + (REVERSE != 0 ? n - 1 - i : i) * inner;
			ELEMENT v = i < n ? x[at] : ELEMENT(0);
			ELEMENT before = subgroupExclusiveAdd(v);
			if (i < n) y[at] = EXCLUSIVE != 0 ? sum + before : sum + (before + v);
			sum += subgroupAdd(v);
		}
		return;
	}
#endif
	for (uint i = 0; i < n; i++) {
		uint at = first + (REVERSE != 0 ? n - 1 - i : i) * inner;
		ELEMENT v = x[at];
		if (EXCLUSIVE != 0) y[at] = sum;
		sum += v;
		if (EXCLUSIVE == 0) y[at] = sum;
	}
}
