// The mean of windows that share the dims of images out as evenly as can be:
// result o of n sees [⌊o·d/n⌋, ⌈(o+1)·d/n⌉). BACK 0: an invocation owns a result; 1:
// an element, and adds up its share of the gradients of the windows that see it.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint BACK = 0;

layout(push_constant) uniform Push { uint n, high, wide, rows, columns; };

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };

uint up(uint a, uint b) { return (a + b - 1) / b; }

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (i >= n) return;
	float sum = 0;
	if (BACK == 0) {
		uint c = i % columns, r = i / columns % rows, image = i / columns / rows;
		uint top = r * high / rows, bottom = up((r + 1) * high, rows), left = c * wide / columns, right = up((c + 1) * wide, columns);
		for (uint a = top; a < bottom; a++)
			for (uint b = left; b < right; b++) sum += x[(image * high + a) * wide + b];
		y[i] = sum / float((bottom - top) * (right - left));
		return;
	}
	uint b = i % wide, a = i / wide % high, image = i / wide / high;
	for (uint r = a * rows / high; r < up((a + 1) * rows, high); r++)
		for (uint c = b * columns / wide; c < up((b + 1) * columns, wide); c++) {
			uint area = (up((r + 1) * high, rows) - r * high / rows) * (up((c + 1) * wide, columns) - c * wide / columns);
			sum += x[(image * rows + r) * columns + c] / float(area);
		}
	y[i] = sum;
}
