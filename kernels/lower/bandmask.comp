// Rows of scores, masked but for a band around the diagonal: query i stands at
// i + offset, and sees keys from left before it to right behind it; −1 is no limit.
#version 450

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OFFSETS = 0; // 0 none, 1 one, 2 one for each item

layout(push_constant) uniform Push {
	uint n;
	int width, queries, each; // each: rows of an item
	int left, right;
	float fill;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Offsets { int offsets[]; }; // two words each

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n) return;
	int key = int(i) % width, row = int(i) / width, at = row % queries;
	if (OFFSETS != 0) at += offsets[OFFSETS == 2 ? 2 * (row / each) : 0];
	bool seen = (left < 0 || key >= at - left) && (right < 0 || key <= at + right);
	if (seen) y[i] = x[i];
	else y[i] = fill;
}
