// (x + bias)/(1 − ratio) or 0, then + residual: by the counter's draws, of which one
// gives four words, or by a mask that somebody has kept. An invocation owns
// BLOCKS times four elements: 32 where a mask of bits is written.
#version 450
#extension GL_EXT_shader_8bit_storage : require

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RATIO = 0;  // there is one; else ½
layout(constant_id = 1) const uint MODE = 0;   // 1: there is one; 2: always in training; else nobody goes
layout(constant_id = 2) const uint MASK = 0;   // wanted: 1 bools, 2 bits
layout(constant_id = 3) const uint SOURCE = 0; // 0 draws, 1 a mask of bools, 2 one of bits
layout(constant_id = 4) const uint BIAS = 0;
layout(constant_id = 5) const uint RESIDUAL = 0;
layout(constant_id = 6) const uint BLOCKS = 1;

layout(push_constant) uniform Push { uint n, who0, who1, width; }; // width: of the bias

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Ratio { float ratio[]; };
layout(binding = 3) readonly buffer Mode { uint8_t training[]; };
layout(binding = 4) buffer Bools { uint8_t bools[]; };
layout(binding = 5) buffer Bits { uint bits[]; };
layout(binding = 6) readonly buffer KeptBools { uint8_t keptBools[]; };
layout(binding = 7) readonly buffer KeptBits { uint keptBits[]; };
layout(binding = 8) readonly buffer Bias { float bias[]; };
layout(binding = 9) readonly buffer Residual { float residual[]; };
layout(binding = 10) readonly buffer Run { uint seed0, seed1, step0, step1; };

uvec4 philox(uvec4 c, uint k0, uint k1) {
	for (int i = 0; i < 10; i++) {
		uint a0, a1, b0, b1;
		umulExtended(c.x, 0xd2511f53u, a1, a0);
		umulExtended(c.z, 0xcd9e8d57u, b1, b0);
		c = uvec4(b1 ^ c.y ^ k0, b0, a1 ^ c.w ^ k1, a0);
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return c;
}

void main() {
	uint first = ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex) * BLOCKS;
	if (4 * first >= n) return;
	bool trains = MODE == 2 || MODE == 1 && uint(training[0]) != 0;
	float r = !trains ? 0 : RATIO != 0 ? ratio[0] : 0.5;
	float scale = 1 / (1 - r);
	uint bound = r < 1 ? uint(roundEven(r * 4294967296.0)) : 0xffffffffu, told = 0;
	for (uint block = first; block < first + BLOCKS; block++) {
		uvec4 words = SOURCE == 0 ? philox(uvec4(block, step0, who0, who1), seed0, seed1) : uvec4(0);
		for (uint i = 0; i < 4 && 4 * block + i < n; i++) {
			uint at = 4 * block + i;
			bool stays;
			if (!trains) stays = true;
			else if (SOURCE == 1) stays = uint(keptBools[at]) != 0;
			else if (SOURCE == 2) stays = (keptBits[at / 32] >> (at % 32) & 1u) != 0;
			else stays = r == 0 || r < 1 && words[i] >= bound;
			float v = x[at];
			if (BIAS != 0) v += bias[at % width];
			v = stays ? v * scale : 0;
			if (!(r >= 0 && r <= 1)) v = uintBitsToFloat(0x7fc00000);
			if (RESIDUAL != 0) v += residual[at];
			y[at] = v;
			if (MASK == 1) bools[at] = uint8_t(stays ? 1u : 0u);
			if (stays) told |= 1u << (at % 32);
		}
	}
	if (MASK == 2) bits[first / 8] = told;
}
