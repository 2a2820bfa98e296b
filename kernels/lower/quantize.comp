// Numbers as small integers by a scale and a zero point, and back. Scales are one,
// or one for each place of an axis, or for each block of places. Integers are parts
// of words; what a word has beyond the end stays as it is.
//
// PASS 0: an invocation owns a word of integers. 1: an invocation owns a number
// that comes back. 2: a subgroup owns a scale, and sums its gradient.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 64;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint BITS = 8; // of an integer
layout(constant_id = 3) const uint SIGNED = 0;
layout(constant_id = 4) const uint ZERO = 0;  // there are zero points
layout(constant_id = 5) const uint ROUND = 0; // of the quotient: 1 to float16, 2 to bfloat16

layout(push_constant) uniform Push { uint n, scales, places, after, block, blocks; };

layout(binding = 0) buffer Y { float y[]; };         // what comes back; the gradient
layout(binding = 1) readonly buffer X { float x[]; };  // numbers; dy
layout(binding = 2) readonly buffer Scales { float scale[]; };
layout(binding = 3) readonly buffer Zeros { uint zeros[]; };
layout(binding = 4) readonly buffer Integers { uint integers[]; };
layout(binding = 5) buffer Quantized { uint quantized[]; };

uint scaleOf(uint i) {
	if (scales == 1) return 0;
	if (block > 0) return (i / (after * places) * blocks + i / after % places / block) * after + i % after;
	return i / after % places;
}

int part(uint word, uint i) {
	if (BITS == 32) return int(word);
	uint shift = BITS * (i % (32 / BITS));
	return SIGNED != 0 ? int(word << (32 - BITS - shift)) >> int(32 - BITS) : int(word >> shift & ((1u << BITS) - 1));
}

float zeroOf(uint k) { return ZERO != 0 ? float(part(zeros[k * BITS / 32], k)) : 0; }
float centred(uint i) { return float(part(integers[i * BITS / 32], i)) - zeroOf(scaleOf(i)); }

float rounded(float v) {
	uint u = floatBitsToUint(v), m = u & 0x7fffffffu;
	if (ROUND == 0 || m >= 0x7f800000u) return v;
	if (ROUND == 2) return uintBitsToFloat((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
	if (m >= 0x477ff000u) return v < 0 ? -65536 : 65536; // beyond all integers
	if (m < 0x38800000u) return roundEven(v * 16777216) / 16777216;
	return uintBitsToFloat((u + 0xfffu + (u >> 13 & 1u)) & 0xffffe000u);
}

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, i = group * LOCAL + gl_LocalInvocationIndex;
	if (PASS == 0) {
		uint each = 32 / BITS;
		if (i * each >= n) return;
		uint word = quantized[i];
		float least = SIGNED != 0 ? -float(1u << (BITS - 1)) : 0, most = least + float((1u << BITS) - 1);
		for (uint k = i * each; k < min((i + 1) * each, n); k++) {
			uint s = scaleOf(k);
			float q = roundEven(rounded(x[k] / scale[s])) + zeroOf(s);
			int v = isnan(q) ? 0 : int(clamp(q, least, most));
			word = bitfieldInsert(word, uint(v), int(BITS * (k % each)), int(BITS));
		}
		quantized[i] = word;
		return;
	}
	if (PASS == 1) {
		if (i < n) y[i] = centred(i) * scale[scaleOf(i)];
		return;
	}
	uint s = group * gl_NumSubgroups + gl_SubgroupID;
	if (s >= scales) return;
	// The elements of a scale: runs of places in each line.
	uint lines = 1, first = 0, run = n, step = 1, gap = 0;
	if (scales > 1 && block == 0) {
		lines = n / (after * places);
		first = s * after;
		run = after;
		gap = places * after;
	} else if (scales > 1) {
		uint p = s / after % blocks * block;
		first = s / after / blocks * places * after + p * after + s % after;
		run = min(block, places - p);
		step = after;
	}
	float sum = 0;
	for (uint k = gl_SubgroupInvocationID; k < lines * run; k += gl_SubgroupSize) {
		uint at = first + k / run * gap + k % run * step;
		sum += x[at] * centred(at);
	}
	sum = subgroupAdd(sum);
	if (subgroupElect()) y[s] = sum;
}
