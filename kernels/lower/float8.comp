// Numbers in 8 bits, e4m3 under a power of two for each 32 of them, and back. An
// invocation owns four such flocks, whose powers are one word. What a word has
// beyond the end stays as it is.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint BACK = 0;

layout(push_constant) uniform Push { uint n; };

layout(binding = 0) buffer Codes { uint codes[]; };
layout(binding = 1) buffer Powers { uint powers[]; };
layout(binding = 2) readonly buffer X { float x[]; };
layout(binding = 3) buffer Y { float y[]; };

float two(int power) { return uintBitsToFloat(uint(power + 127) << 23); }

uint coded(float v, float by) {
	uint u = floatBitsToUint(v), m = u & 0x7fffffffu, s = u >> 24 & 0x80u;
	if (m >= 0x7f800000u) return s | 0x7fu;
	m = floatBitsToUint(uintBitsToFloat(m) * by);
	if (m < 0x3c800000u) return s | uint(roundEven(uintBitsToFloat(m) * 512));
	return s | min((m + 0x7ffffu + (m >> 20 & 1u) - 0x3c000000u) >> 20, 0x7eu);
}

float number(uint code, int power) {
	uint e = code >> 3 & 15u, m = code & 7u;
	float v = e == 0 ? float(m) * 0.001953125 : float(8 + m) * two(int(e) - 10);
	if ((code & 0x7fu) == 0x7fu) v = uintBitsToFloat(0x7fc00000);
	// In two steps: the power itself may be no float32's.
	v = v * two(power / 2) * two(power - power / 2);
	return (code & 0x80u) != 0 ? -v : v;
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (128 * i >= n) return;
	uint all = powers[i];
	for (uint f = 0; f < 4; f++) {
		uint first = 128 * i + 32 * f, end = min(first + 32, n);
		if (first >= n) break;
		if (BACK != 0) {
			int power = int(all << (24 - 8 * f)) >> 24;
			for (uint k = first; k < end; k++) y[k] = number(codes[k >> 2] >> 8 * (k & 3u) & 0xffu, power);
			continue;
		}
		uint most = 0;
		for (uint k = first; k < end; k++) {
			uint m = floatBitsToUint(x[k]) & 0x7fffffffu;
			if (m < 0x7f800000u) most = max(most, m);
		}
		int power = most == 0 ? 0 : clamp(int(most >> 23) - 135 + ((most & 0x7fffffu) > 0x600000u ? 1 : 0), -127, 119);
		float by = two(-power);
		all = bitfieldInsert(all, uint(power), int(8 * f), 8);
		for (uint w = first >> 2; 4 * w < end; w++) {
			uint word = codes[w];
			for (uint k = 4 * w; k < min(4 * w + 4, end); k++) word = bitfieldInsert(word, coded(x[k], by), int(8 * (k & 3u)), 8);
			codes[w] = word;
		}
	}
	if (BACK == 0) powers[i] = all;
}
