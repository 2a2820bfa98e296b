// One integer of many, as reduce.comp has it for floats: an invocation owns one and
// takes its terms in order. Sums wrap round.
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint FOLD = 0; // 0 sum, 1 greatest, 2 least, 3 product
layout(constant_id = 1) const uint TERM = 0; // of x: 0 x, 1 x², 2 |x|

layout(push_constant) uniform Push {
	uint results, terms;
	uint stay[2], stayAt[3]; // the inner dims; strides, outer first
	uint gone[2], goneAt[3];
};

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer X { ELEMENT x[]; };

uint offset(uint i, uint d1, uint d2, uint s0, uint s1, uint s2) { return i / d2 / d1 * s0 + i / d2 % d1 * s1 + i % d2 * s2; }

ELEMENT term(uint base, uint i) {
	ELEMENT v = x[base + offset(i, gone[0], gone[1], goneAt[0], goneAt[1], goneAt[2])];
	return TERM == 1 ? v * v : TERM == 2 && v < 0 ? -v : v;
}

void main() {
	uint result = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (result >= results) return;
	uint base = offset(result, stay[0], stay[1], stayAt[0], stayAt[1], stayAt[2]);
	ELEMENT acc = FOLD == 3 ? ELEMENT(1) : ELEMENT(0);
	if (FOLD == 1 || FOLD == 2) acc = term(base, 0);
	for (uint i = 0; i < terms; i++) {
		ELEMENT v = term(base, i);
		acc = FOLD == 0 ? acc + v : FOLD == 3 ? acc * v : FOLD == 1 ? max(acc, v) : min(acc, v);
	}
	y[result] = acc;
}
