// [before, depth, after]: the second of two values where the middle is the index
// of [before, after], the first elsewhere. An index is int32, the low word of an
// int64, or a float.
#version 450
#extension GL_EXT_shader_8bit_storage : enable

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KIND = 1; // of an index: words of it, or 0 for a float

layout(push_constant) uniform Push { uint n; int depth; uint after; };

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer Index { int indices[]; };
layout(binding = 2) readonly buffer Values { ELEMENT values[]; };

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n) return;
	uint at = i / after / depth * after + i % after;
	int k = KIND == 0 ? int(intBitsToFloat(indices[at])) : indices[at * KIND];
	if (k < 0) k += depth;
	if (k == int(i / after) % depth) y[i] = values[1];
	else y[i] = values[0];
}
