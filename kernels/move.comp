// Carries a box of elements from place to place: up to five dims, outer first.
// ELEMENT is what is carried: a byte, or 1, 2 or 4 words at once.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : enable

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint FILL = 0; // write the value, and read nothing

layout(push_constant) uniform Push {
	uint n;
	int fromAt, toAt;
	uint dims[5];
	int from[5], to[5];
	uint value;
};

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer X { ELEMENT x[]; };

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n) return;
	int f = fromAt, t = toAt;
	[[unroll]] for (int d = 4; d >= 0; d--) {
		if (d >= RANK) continue;
		uint at = d == 0 ? i : i % dims[d];
		i /= dims[d];
		f += int(at) * from[d];
		t += int(at) * to[d];
	}
	if (FILL != 0) y[t] = ELEMENT(value);
	else y[t] = x[f];
}
