// min(1, most/(√Σ + 1e-6)) of the sums that lie in work: one subgroup.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(push_constant) uniform Push { uint n; };
layout(binding = 0) buffer Factor { float factor[]; };
layout(binding = 1) readonly buffer Most { float most[]; };
layout(binding = 2) readonly buffer Work { float work[]; };

void main() {
	if (gl_SubgroupID != 0) return;
	float acc = 0;
	for (uint i = gl_SubgroupInvocationID; i < n; i += gl_SubgroupSize) acc += work[i];
	acc = subgroupAdd(acc);
	// Not min: NaN must be seen.
	float f = most[0] / (sqrt(acc) + 1e-6);
	if (subgroupElect()) factor[0] = f > 1 ? 1 : f;
}
