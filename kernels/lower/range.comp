// start, start + delta, … as 64-bit integers that fit into 32.
#version 450

layout(local_size_x = 256) in;
layout(push_constant) uniform Push { uint n; int start, delta; };
layout(binding = 0) buffer Y { ivec2 y[]; };

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n) return;
	int v = start + int(i) * delta;
	y[i] = ivec2(v, v >> 31);
}
