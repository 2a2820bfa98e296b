// The passes of crossentropy.comp over rows of scores, and its sums of all samples, on devices whose groups share
// fast memory: each score that a team keeps is read once, the others twice, and for the loss once.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint PASS = 0;      // 0, 1, 3 or 4, and the rest as crossentropy.comp has it
layout(constant_id = 5) const uint STEP = 2;
layout(constant_id = 6) const uint WEIGHTS = 0;
layout(constant_id = 7) const uint IGNORES = 0;
layout(constant_id = 8) const uint REDUCTION = 0;
layout(constant_id = 9) const uint LOG_PROB = 0;
layout(constant_id = 10) const uint KEPT = 0;

layout(push_constant) uniform Push {
	uint samples, n, inner; // n classes, of V
	int ignored;
	uint first, rows;
};

layout(binding = 0) buffer Out { float result[]; };
layout(binding = 1) readonly buffer Scores { V x[]; };
layout(binding = 2) readonly buffer Labels { int labels[]; };
layout(binding = 3) readonly buffer Weights { float weights[]; };
layout(binding = 4) buffer Work { float work[]; };
layout(binding = 5) buffer LogProb { V logProb[]; };
layout(binding = 6) readonly buffer Slope { float slope[]; };
layout(binding = 0) buffer OutV { V dx[]; };
layout(binding = 1) readonly buffer Score { float score[]; };

float pick(uint s, out int label) {
	label = labels[s * STEP];
	if (IGNORES != 0 && label == ignored) {
		label = -1;
		return 0;
	}
	if (label < 0 || label >= n * WIDE) {
		label = -1;
		return uintBitsToFloat(0x7fc00000);
	}
	return WEIGHTS != 0 ? weights[label] : 1;
}

float add(uint from) {
	float acc = 0;
	for (uint i = me; i < samples; i += TEAM) acc += work[from + i];
	return added(acc);
}

// lessAt is v without g at the label.
float lessAt(float v, uint i, int label, float g) { return int(i) == label ? v - g : v; }
vec4 lessAt(vec4 v, uint i, int label, float g) { return mix(v, v - g, equal(ivec4(4 * i) + ivec4(0, 1, 2, 3), ivec4(label))); }

#define ROW(i) x[at + i * inner]

void main() {
	if (PASS == 1 || PASS == 3) {
		if (!join(1)) return;
		float total = REDUCTION == 0 || PASS == 3 ? add(samples) : 1;
		float loss = PASS == 1 ? add(0) / total : 0;
		if (me == 0) {
			if (PASS == 1) result[0] = loss;
			else work[0] = total;
		}
		return;
	}
	if (!join(rows)) return;
	uint at = row / inner * inner * n + row % inner, s = first + row;
	int label;
	float w = pick(s, label), top = 0, sum = 1, g = 0;
	if (PASS == 4) {
		g = w * slope[REDUCTION == 2 ? s : 0];
		if (REDUCTION == 0) g /= work[0];
		if (label < 0 && w == 0) {
#define NONE(k, i) if (i < n) dx[at + i * inner] = V(0);
			EACH(NONE)
			return;
		}
	}
	V held[SLOTS];
	if (KEPT == 0) EXTENT
	if (PASS == 0) {
		float lse = KEPT == 0 ? top + log(sum) : 0;
		if (me == 0) {
			float loss = label < 0 ? w : w * (lse - score[at * WIDE + uint(label) * inner]);
			if (REDUCTION == 2) result[s] = loss;
			work[s] = loss;
			work[samples + s] = w;
		}
		if (LOG_PROB == 0) return;
#define LOG_OF(k, i) if (i < n) logProb[at + i * inner] = (KEPT == 0 ? BACK_FROM(held, stored, k, i, ROW(i)) : ROW(i)) - lse;
		EACH(LOG_OF)
		return;
	}
	float scale = g / sum;
#define SLOPE(k, i) \
	if (i < n) { \
		V d = V(0); \
		if (KEPT == 0) d = exp(BACK_FROM(held, stored, k, i, ROW(i)) - top) * scale; \
		else if (KEPT == 1) d = exp(ROW(i) - top) * scale; \
		dx[at + i * inner] = lessAt(d, i, label, g); \
	}
	EACH(SLOPE)
}
