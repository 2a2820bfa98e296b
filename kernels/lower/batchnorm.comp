// Normalised channels of [N, C, inner], forward and backward. A subgroup owns a
// channel; its lanes share out the elements, and each writes only those that it
// has read, so the result may lie over an input. Sums are made of chunks of samples,
// one after the other.
//
// Where a kernel does not see all samples, some at a time: passes 1 to 3 each bring
// up a sum of Σx, Σ(x − mean)², and Σdy with Σdy·(x − mean), in Y; 5 makes of those what
// there is for a channel, and 4, which sees them in Kept, what there is for an element.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint BACK = 0;
layout(constant_id = 2) const uint TRAINING = 0; // 1: by the batch's statistics; 2: backward, they are kept in mean and variance, as 1/√(var + ε)
layout(constant_id = 3) const uint WANTED = 0; // forward: bits 0 and 1, the running mean and variance, 2 and 3, the batch's; backward: dscale and dB

layout(constant_id = 4) const uint PASS = 0; // 0: all at once

layout(push_constant) uniform Push {
	uint n, channels, inner; // n: samples that are seen
	float epsilon, momentum;
	uint samples, chunk; // of the batch, and of a chunk
	uint begin, begun;   // where those that are seen begin, and whether there are sums to go on from
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

uint place(uint e) { return begin + (e / inner * channels + channel) * inner + e % inner; }

// stored is a sum of an earlier pass.
float stored(uint sum) {
	uint at = sum * channels + channel;
	return PASS == 4 ? kept[at] : y[at];
}

// sums are a pass's, by all samples: counted up, brought up or as they are stored.
vec2 sums(uint pass, float m) {
	uint slot = pass - 1;
	vec2 sum = vec2(0);
	if (PASS != 0 && PASS != pass) return vec2(stored(slot), pass == 3 ? stored(slot + 1) : 0);
	// Only the lane that stores them reads what was stored.
	if (PASS == pass && begun != 0 && subgroupElect()) sum = vec2(stored(slot), pass == 3 ? stored(slot + 1) : 0);
	uint lane = gl_SubgroupInvocationID, step = gl_SubgroupSize, end = n * inner;
	for (uint from = 0; from < end; from += chunk * inner) {
		uint to = min(from + chunk * inner, end);
		float a = 0, b = 0;
		for (uint e = from + lane; e < to; e += 32 * step) {
			float partA = 0, partB = 0;
			for (uint k = e; k < min(e + 32 * step, to); k += step) {
				float d = x[place(k)] - m;
				if (pass == 1) partA += d;
				if (pass == 2) partA += d * d;
				if (pass == 3) {
					float g = bias[place(k)];
					partA += g;
					partB += g * d;
				}
			}
			a += partA;
			b += partB;
		}
		sum.x += subgroupAdd(a);
		if (pass == 3) sum.y += subgroupAdd(b);
	}
	if (PASS == pass && subgroupElect()) {
		y[slot * channels + channel] = sum.x;
		if (pass == 3) y[(slot + 1) * channels + channel] = sum.y;
	}
	return sum;
}

void main() {
	channel = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (channel >= channels) return;
	uint count = n * inner, lane = gl_SubgroupInvocationID, step = gl_SubgroupSize;
	float all = float(samples * inner), m, v;
	if (TRAINING == 1) {
		m = sums(1, 0).x / all;
		if (PASS == 1) return;
		v = sums(2, m).x / all;
		if (PASS == 2) return;
	} else {
		m = mean[channel];
		v = variance[channel];
	}
	vec2 flow = vec2(0);
	if (BACK != 0) flow = sums(3, m);
	if (PASS == 3) return;
	float inv = TRAINING == 2 ? v : 1 / sqrt(v + epsilon);
	if ((PASS == 0 || PASS == 5) && subgroupElect()) {
		if (BACK == 0) {
			if ((WANTED & 1) != 0) first[channel] = mean[channel] * momentum + m * (1 - momentum);
			if ((WANTED & 2) != 0) second[channel] = variance[channel] * momentum + v * (1 - momentum);
			if ((WANTED & 4) != 0) kept[channel] = m;
			if ((WANTED & 8) != 0) keptInv[channel] = inv;
		} else {
			if ((WANTED & 1) != 0) first[channel] = flow.y * inv;
			if ((WANTED & 2) != 0) second[channel] = flow.x;
		}
	}
	if (PASS == 5) return;
	float gain = scale[channel] * inv;
	if (BACK == 0) {
		float b = bias[channel];
		for (uint e = lane; e < count; e += step) y[place(e)] = (x[place(e)] - m) * gain + b;
		return;
	}
	float slope = 0, more = 0;
	if (TRAINING != 0) {
		slope = -gain * flow.y * inv * inv / all;
		more = -gain * flow.x / all;
	}
	for (uint e = lane; e < count; e += step) y[place(e)] = gain * bias[place(e)] + slope * (x[place(e)] - m) + more;
}
