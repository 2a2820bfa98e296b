// Rows [starts, ends) of data [rows, width] as one, and the gradient of that. Bounds are
// two words each, and count as a Slice's do.
//
// PASS 0: an invocation owns an element of y [segments, width]. PASS 1: an invocation owns
// a row, and finds the first segment that it is in, and the end of the last. PASS 2: an
// invocation owns an element of dX, and goes through those.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PASS = 0;
layout(constant_id = 1) const uint MODE = 0; // sum, mean, max, min

layout(push_constant) uniform Push { uint rows, width, segments; };

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer D { float d[]; }; // dY
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) readonly buffer Starts { ivec2 starts[]; };
layout(binding = 4) readonly buffer Ends { ivec2 ends[]; };
layout(binding = 5) buffer Work { uint work[]; }; // two words a row

uint bound(ivec2 v) {
	if (v.y < 0) return v.y == -1 && v.x < 0 && uint(-v.x) < rows ? rows - uint(-v.x) : 0;
	return v.y > 0 || uint(v.x) > rows ? rows : uint(v.x);
}

// place is the first row of those that has the greatest number, or the least.
uint place(uint first, uint end, uint k) {
	uint at = end;
	float best = 0;
	for (uint row = first; row < end; row++) {
		float v = x[row * width + k];
		if (at == end || (MODE == 2 ? v > best : v < best) || (isnan(v) && !isnan(best))) {
			best = v;
			at = row;
		}
	}
	return at;
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (PASS == 1) {
		if (i >= rows) return;
		uint low = segments, high = 0;
		for (uint s = 0; s < segments; s++) {
			if (i >= bound(starts[s]) && i < bound(ends[s])) {
				low = min(low, s);
				high = s + 1;
			}
		}
		work[2 * i] = low;
		work[2 * i + 1] = high;
		return;
	}
	uint row = i / width, k = i % width;
	float sum = 0;
	if (PASS == 0) {
		if (row >= segments) return;
		uint first = bound(starts[row]), end = bound(ends[row]);
		if (MODE >= 2) {
			uint at = first < end ? place(first, end, k) : end;
			y[i] = first < end ? x[at * width + k] : uintBitsToFloat(MODE == 2 ? 0xff800000 : 0x7f800000);
			return;
		}
		for (uint r = first; r < end; r++) sum += x[r * width + k];
		y[i] = MODE == 1 && first < end ? sum / float(end - first) : sum;
		return;
	}
	if (row >= rows) return;
	for (uint s = work[2 * row]; s < work[2 * row + 1]; s++) {
		uint first = bound(starts[s]), end = bound(ends[s]);
		if (row < first || row >= end) continue;
		float slope = d[s * width + k];
		if (MODE >= 2)
			sum += place(first, end, k) == row ? slope : 0;
		else
			sum += MODE == 1 ? slope / float(end - first) : slope;
	}
	y[i] = sum;
}
