// Normalised rows (PASS 0 of norm.comp) on devices whose groups share fast memory: each element that a team keeps is read
// once, and the others twice.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint CENTRED = 1;
layout(constant_id = 5) const uint BIAS = 0;
layout(constant_id = 6) const uint STATS = 0; // bit 0 mean, bit 1 inv are wanted
layout(constant_id = 7) const uint SPREAD = 0;

layout(push_constant) uniform Push {
	uint seen, n;          // rows that are seen, and their length, of V
	float epsilon;
	uint first;            // of the rows, where those begin that are seen
	uint cycle, each, run; // with SPREAD: rows of scale, their length, elements that share one
};

layout(binding = 0) buffer Y { V y[]; };
layout(binding = 1) readonly buffer X { V x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };
layout(binding = 4) buffer Mean { float mean[]; };
layout(binding = 5) buffer Inv { float inv[]; };
layout(binding = 2) readonly buffer ScaleV { V scaleV[]; };
layout(binding = 3) readonly buffer BiasV { V biasV[]; };

uint affine(uint i) { return row % cycle * each + i * WIDE / run; }

#define ROW(i) x[at + i]

void main() {
	if (!join(seen)) return;
	uint at = row * n;
	float m, s; // the mean, and the sum of squares
	V held[SLOTS];
	STATISTICS(float(n * WIDE), m, s)
	s = 1 / sqrt(s / float(n * WIDE) + epsilon);
	if (me == 0) {
		if ((STATS & 1) != 0) mean[first + row] = m;
		if ((STATS & 2) != 0) inv[first + row] = s;
	}
#define RESULT(k, i) \
	if (i < n) { \
		V d = (BACK_FROM(held, stored, k, i, ROW(i)) - m) * s; \
		if (SPREAD != 0) d *= scale[affine(i)]; \
		else d *= scaleV[i]; \
		if (BIAS != 0) { \
			if (SPREAD != 0) d += bias[affine(i)]; \
			else d += biasV[i]; \
		} \
		y[at + i] = d; \
	}
	EACH(RESULT)
}
