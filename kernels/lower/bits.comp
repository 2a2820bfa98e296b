// A bit for each element: an invocation owns a word of 32. RULE 0: set if x is above
// zero; 1: set if a bool is true; 2: y is x where the bit is set, else 0.
#version 450
#extension GL_EXT_shader_8bit_storage : require

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint RULE = 0;
layout(push_constant) uniform Push { uint n; };
layout(binding = 0) buffer Y { uint y[]; };
layout(binding = 1) readonly buffer X { uint x[]; };
layout(binding = 2) readonly buffer Bools { uint8_t bools[]; };
layout(binding = 3) readonly buffer Bits { uint bits[]; };

void main() {
	uint word = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	uint first = 32 * word;
	if (first >= n) return;
	uint told = 0, given = RULE == 2 ? bits[word] : 0;
	for (uint i = 0; i < 32 && first + i < n; i++) {
		if (RULE == 0) told |= uint(uintBitsToFloat(x[first + i]) > 0) << i;
		else if (RULE == 1) told |= uint(uint(bools[first + i]) != 0) << i;
		else y[first + i] = (given >> i & 1u) != 0 ? x[first + i] : 0;
	}
	if (RULE != 2) y[word] = told;
}
