// Rows of scores [N, C, inner] and their labels: the loss and its gradient. A
// subgroup owns a row. A dispatch may see some of the rows alone, as scores,
// log-softmax and gradient have them; the rest is of all samples.
//
// PASS 0: a sample's loss and weight to work[s] and work[N + s], its log-softmax
// to logProb. PASS 1: one subgroup adds those up and writes the loss, scaled.
// PASS 2: weights alone, to work[N + s]. PASS 3: one subgroup writes their sum to
// work[0]. PASS 4: the gradient of a row.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint STEP = 2;      // words of a label
layout(constant_id = 3) const uint WEIGHTS = 0;   // there are some
layout(constant_id = 4) const uint IGNORES = 0;   // there is a label to ignore
layout(constant_id = 5) const uint REDUCTION = 0; // 0 mean, 1 sum, 2 none
layout(constant_id = 6) const uint LOG_PROB = 0;  // PASS 0: wanted
layout(constant_id = 7) const uint KEPT = 0;      // 1: the scores are log-softmax; 2: PASS 4: and nothing flows but at the labels

layout(push_constant) uniform Push {
	uint samples, classes, inner;
	int ignored;
	uint first, rows; // of the rows that are seen
};

layout(binding = 0) buffer Out { float result[]; }; // the loss, or dscores
layout(binding = 1) readonly buffer Scores { float x[]; };
layout(binding = 2) readonly buffer Labels { int labels[]; };
layout(binding = 3) readonly buffer Weights { float weights[]; };
layout(binding = 4) buffer Work { float work[]; };
layout(binding = 5) buffer LogProb { float logProb[]; };
layout(binding = 6) readonly buffer Slope { float slope[]; }; // dloss

// weight of a sample; label is −1 where it has none. A label that is no class
// gives NaN, so that the mistake is seen.
float pick(uint s, out int label) {
	label = labels[s * STEP];
	if (IGNORES != 0 && label == ignored) {
		label = -1;
		return 0;
	}
	if (label < 0 || label >= classes) {
		label = -1;
		return uintBitsToFloat(0x7fc00000);
	}
	return WEIGHTS != 0 ? weights[label] : 1;
}

// add sums a list of the work space by one subgroup.
float add(uint from, uint n) {
	float acc = 0;
	for (uint i = gl_SubgroupInvocationID; i < n; i += 32 * gl_SubgroupSize) {
		float part = 0;
		for (uint k = i; k < min(i + 32 * gl_SubgroupSize, n); k += gl_SubgroupSize) part += work[from + k];
		acc += part;
	}
	return subgroupAdd(acc);
}

// extent of a row: its greatest score, and the sum of e^(score − greatest).
void extent(uint at, out float top, out float sum) {
	top = uintBitsToFloat(0xff800000);
	for (uint k = gl_SubgroupInvocationID; k < classes; k += gl_SubgroupSize) top = max(top, x[at + k * inner]);
	top = subgroupMax(top);
	sum = 0;
	for (uint k = gl_SubgroupInvocationID; k < classes; k += gl_SubgroupSize) sum += exp(x[at + k * inner] - top);
	sum = subgroupAdd(sum);
}

void main() {
	if (PASS == 1 || PASS == 3) {
		if (gl_WorkGroupID.x != 0 || gl_SubgroupID != 0) return;
		float total = REDUCTION == 0 || PASS == 3 ? add(samples, samples) : 1;
		float loss = PASS == 1 ? add(0, samples) / total : 0;
		if (subgroupElect()) {
			if (PASS == 1) result[0] = loss;
			else work[0] = total;
		}
		return;
	}
	uint s = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (s >= rows) return;
	uint at = s / inner * inner * classes + s % inner;
	s += first;
	int label;
	float w = pick(s, label);
	if (PASS == 2) {
		if (subgroupElect()) work[samples + s] = w;
		return;
	}
	float top, sum;
	if (PASS == 0) {
		float lse = 0;
		if (KEPT == 0) {
			extent(at, top, sum);
			lse = top + log(sum);
		}
		if (subgroupElect()) {
			float loss = label < 0 ? w : w * (lse - x[at + uint(label) * inner]);
			if (REDUCTION == 2) result[s] = loss;
			work[s] = loss;
			work[samples + s] = w;
		}
		if (LOG_PROB != 0)
			for (uint k = gl_SubgroupInvocationID; k < classes; k += gl_SubgroupSize) logProb[at + k * inner] = x[at + k * inner] - lse;
		return;
	}
	float g = w * slope[REDUCTION == 2 ? s : 0];
	if (REDUCTION == 0) g /= work[0];
	if (label < 0 && w == 0) {
		for (uint k = gl_SubgroupInvocationID; k < classes; k += gl_SubgroupSize) result[at + k * inner] = 0;
		return;
	}
	top = 0;
	sum = 1;
	if (KEPT == 0) extent(at, top, sum);
	float scale = g / sum;
	for (uint k = gl_SubgroupInvocationID; k < classes; k += gl_SubgroupSize) {
		float v = KEPT == 2 ? 0 : exp(x[at + k * inner] - top) * scale;
		result[at + k * inner] = k == label ? v - g : v;
	}
}
