// Triangles of matrices: what lies beyond diagonal k, on the side that is not
// wanted, is zero.
#version 450
#extension GL_EXT_shader_8bit_storage : enable

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint UPPER = 1;

layout(push_constant) uniform Push {
	uint n, height, width;
	int k;
};

layout(binding = 0) buffer Y { ELEMENT y[]; };
layout(binding = 1) readonly buffer X { ELEMENT x[]; };

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n) return;
	int column = int(i % width), edge = int(i / width % height) + k;
	bool stays = UPPER != 0 ? column >= edge : column <= edge;
	if (stays) y[i] = x[i];
	else y[i] = ELEMENT(0);
}
