// x/(1 − ratio) or 0, by the counter's draws: an invocation owns four elements,
// as one draw gives four words.
#version 450
#extension GL_EXT_shader_8bit_storage : require

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RATIO = 0; // there is one; else ½
layout(constant_id = 1) const uint MASK = 0;  // wanted

layout(push_constant) uniform Push { uint n, who0, who1; };

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Ratio { float ratio[]; };
layout(binding = 3) readonly buffer Mode { uint8_t training[]; };
layout(binding = 4) buffer Mask { uint8_t mask[]; };
layout(binding = 5) readonly buffer Run { uint seed0, seed1, step0, step1; };

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
	uint block = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (4 * block >= n) return;
	float r = uint(training[0]) == 0 ? 0 : RATIO != 0 ? ratio[0] : 0.5;
	float scale = 1 / (1 - r);
	uint bound = r < 1 ? uint(roundEven(r * 4294967296.0)) : 0xffffffffu;
	uvec4 words = philox(uvec4(block, step0, who0, who1), seed0, seed1);
	for (uint i = 0; i < 4 && 4 * block + i < n; i++) {
		uint at = 4 * block + i;
		bool stays = r < 1 && words[i] >= bound;
		y[at] = !(r >= 0 && r <= 1) ? uintBitsToFloat(0x7fc00000) : stays ? x[at] * scale : 0;
		if (MASK != 0) mask[at] = uint8_t(stays ? 1u : 0u);
	}
}
