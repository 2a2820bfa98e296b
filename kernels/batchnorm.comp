// Normalised channels of [N, C, inner], forward and backward. A subgroup owns a
// channel; its lanes share out the elements, and each writes only those that it
// has read, so the result may lie over an input.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint BACK = 0;
layout(constant_id = 2) const uint TRAINING = 0; // 1: by the batch's statistics; 2: backward, they are kept in mean and variance, as 1/√(var + ε)
layout(constant_id = 3) const uint WANTED = 0; // forward: bits 0 and 1, the running mean and variance, 2 and 3, the batch's; backward: dscale and dB

layout(push_constant) uniform Push {
	uint n, channels, inner;
	float epsilon, momentum;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; }; // bias; dy
layout(binding = 4) readonly buffer Mean { float mean[]; };
layout(binding = 5) readonly buffer Variance { float variance[]; };
layout(binding = 6) buffer First { float first[]; };   // running mean; dscale
layout(binding = 7) buffer Second { float second[]; }; // running variance; dB
layout(binding = 8) buffer Kept { float kept[]; };
layout(binding = 9) buffer KeptInv { float keptInv[]; };

uint channel;

uint place(uint e) { return (e / inner * channels + channel) * inner + e % inner; }

void main() {
	channel = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (channel >= channels) return;
	uint count = n * inner, lane = gl_SubgroupInvocationID, step = gl_SubgroupSize;
	float m, v;
	if (TRAINING == 1) {
		float sum = 0;
		for (uint e = lane; e < count; e += 32 * step) {
			float part = 0;
			for (uint k = e; k < min(e + 32 * step, count); k += step) part += x[place(k)];
			sum += part;
		}
		m = subgroupAdd(sum) / float(count);
		sum = 0;
		for (uint e = lane; e < count; e += 32 * step) {
			float part = 0;
			for (uint k = e; k < min(e + 32 * step, count); k += step) {
				float d = x[place(k)] - m;
				part += d * d;
			}
			sum += part;
		}
		v = subgroupAdd(sum) / float(count);
	} else {
		m = mean[channel];
		v = variance[channel];
	}
	float inv = TRAINING == 2 ? v : 1 / sqrt(v + epsilon), gain = scale[channel] * inv;
	if (BACK == 0) {
		if (subgroupElect()) {
			if ((WANTED & 1) != 0) first[channel] = mean[channel] * momentum + m * (1 - momentum);
			if ((WANTED & 2) != 0) second[channel] = variance[channel] * momentum + v * (1 - momentum);
			if ((WANTED & 4) != 0) kept[channel] = m;
			if ((WANTED & 8) != 0) keptInv[channel] = inv;
		}
		float b = bias[channel];
		for (uint e = lane; e < count; e += step) y[place(e)] = (x[place(e)] - m) * gain + b;
		return;
	}
	float d = 0, dx = 0;
	for (uint e = lane; e < count; e += 32 * step) {
		float d32 = 0, dx32 = 0;
		for (uint k = e; k < min(e + 32 * step, count); k += step) {
			float g = bias[place(k)];
			d32 += g;
			dx32 += g * (x[place(k)] - m);
		}
		d += d32;
		dx += dx32;
	}
	d = subgroupAdd(d);
	dx = subgroupAdd(dx);
	if (subgroupElect()) {
		if ((WANTED & 1) != 0) first[channel] = dx * inv;
		if ((WANTED & 2) != 0) second[channel] = d;
	}
	float slope = 0, more = 0;
	if (TRAINING != 0) {
		slope = -gain * dx * inv * inv / float(count);
		more = -gain * d / float(count);
	}
	for (uint e = lane; e < count; e += step) y[place(e)] = gain * bias[place(e)] + slope * (x[place(e)] - m) + more;
}
