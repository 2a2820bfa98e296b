// Carries a box of elements from place to place: up to five dims, outer first.
// ELEMENT is what is carried: a byte, or 1, 2 or 4 words at once; with HALVES
// it is half a word, and whoever owns it changes only that half. With TURN a box
// of four by four words is turned over: four at once are read along one dim, and
// four at once written along another.
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
#ifdef TURN
	int nextFrom, nextTo; // from a row of four to the next
#else
	uint value, more; // more: the high word of 64 bits
#endif
};

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer X { ELEMENT x[]; };

#ifndef VALUE
#define VALUE ELEMENT(value)
#endif

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
#ifdef TURN
	uvec4 a = x[f], b = x[f + nextFrom], c = x[f + 2 * nextFrom], d = x[f + 3 * nextFrom];
	y[t] = uvec4(a.x, b.x, c.x, d.x);
	y[t + nextTo] = uvec4(a.y, b.y, c.y, d.y);
	y[t + 2 * nextTo] = uvec4(a.z, b.z, c.z, d.z);
	y[t + 3 * nextTo] = uvec4(a.w, b.w, c.w, d.w);
#else
#ifdef HALVES
	int shift = 16 * (t & 1);
	uint v = FILL != 0 ? value : x[f >> 1] >> 16 * (f & 1);
	atomicXor(y[t >> 1], ((y[t >> 1] >> shift ^ v) & 0xffffu) << shift);
#else
	if (FILL != 0) y[t] = VALUE;
	else y[t] = x[f];
#endif
#endif
}
