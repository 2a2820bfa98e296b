// The scalars of a loss scale: one invocation, but MODE 2, which is one subgroup.
// A scale of 0 means the initial one.
//
// MODE 0: the scale, as a seed. MODE 1: the next scale, and how many updates it
// has been good for. MODE 2: factor/scale, or −1 if work, the largest sizes of
// parts of gradients, has one that is not finite. MODE 3: the number of the
// update, and one more unless the scale is negative.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 1;
layout(constant_id = 1) const uint MODE = 0;
layout(constant_id = 2) const uint FACTOR = 0; // there is one

layout(push_constant) uniform Push {
	float initial, least, most;
	uint window, n;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) buffer Number { uint number[]; }; // two words
layout(binding = 2) readonly buffer Scale { float scales[]; };
layout(binding = 3) readonly buffer Last { uint last[]; }; // two words
layout(binding = 4) readonly buffer Factor { float factors[]; }; // MODE 1: what MODE 2 gave
layout(binding = 5) readonly buffer Work { float work[]; };

void more() {
	uint carry, low = uaddCarry(last[0], 1, carry), high = last[1] + carry;
	number[0] = low;
	number[1] = high;
}

void main() {
	if (gl_SubgroupID != 0) return;
	float scale = scales[0];
	if (MODE != 3 && scale == 0) scale = initial;
	if (MODE == 2) {
		float bad = 0;
		for (uint i = gl_SubgroupInvocationID; i < n; i += gl_SubgroupSize)
			if (isnan(work[i]) || work[i] > 3.4028234e38) bad = 1;
		bad = subgroupMax(bad);
		if (subgroupElect()) y[0] = bad != 0 ? -1 : (FACTOR != 0 ? factors[0] : 1) / scale;
		return;
	}
	if (gl_SubgroupInvocationID != 0) return;
	if (MODE == 0) {
		y[0] = scale;
		return;
	}
	if (MODE == 3) {
		uint low = last[0], high = last[1];
		if (scale >= 0 || isnan(scale)) more();
		else {
			number[0] = low;
			number[1] = high;
		}
		return;
	}
	bool renewed = true;
	if (factors[0] < 0) scale = max(scale / 2, min(scale, least));
	else if (last[1] != 0 || last[0] + 1 >= window) scale = min(scale * 2, max(scale, most));
	else renewed = false;
	if (renewed) {
		number[0] = 0;
		number[1] = 0;
	} else more();
	y[0] = scale;
}
