// Normalised channels of [N, C, inner], forward and backward, as batchnorm.comp has them in one pass, on devices whose
// groups share fast memory: a team owns a channel. Each element that the team keeps is read once, and the others twice.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint BACK = 0;
layout(constant_id = 5) const uint TRAINING = 0; // as batchnorm.comp's
layout(constant_id = 6) const uint WANTED = 0;

layout(push_constant) uniform Push {
	uint samples, channels, inner; // inner is of V
	float epsilon, momentum;
};

layout(binding = 0) buffer Y { V y[]; };
layout(binding = 1) readonly buffer X { V x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };
layout(binding = 4) readonly buffer Mean { float mean[]; };
layout(binding = 5) readonly buffer Variance { float variance[]; };
layout(binding = 6) buffer First { float first[]; };   // running mean; dscale
layout(binding = 7) buffer Second { float second[]; }; // running variance; dB
layout(binding = 8) buffer Kept { float kept[]; };
layout(binding = 9) buffer KeptInv { float keptInv[]; };
layout(binding = 3) readonly buffer DY { V dy[]; };

uint place(uint i) { return (i / inner * channels + row) * inner + i % inner; }

const uint CENTRED = 1;
shared V storedToo[BACK != 0 && STORED != 0 ? STORED : 1]; // of dy
#define ROW(i) x[place(i)]

void main() {
	if (!join(channels)) return;
	uint n = samples * inner;
	float all = float(n * WIDE), m = 0, v = 0, sum = 0, along = 0;
	V held[SLOTS], heldToo[SLOTS];
	if (BACK == 0) {
		if (TRAINING == 1) STATISTICS(all, m, v)
	} else if (REST != 0) {
		// Products are with what elements differ from the first by, until their mean is known.
		float known = 0, origin = TRAINING == 1 ? within(ROW(0)) / float(WIDE) : mean[row];
		V sums = V(0), products = V(0);
#define TAKE(k, i) \
		V e = ROW(i), g = dy[place(i)]; \
		KEEP(held, stored, k, i, e) \
		KEEP(heldToo, storedToo, k, i, g) \
		if (TRAINING == 1) watch(e, known, m, v); \
		sums += g; \
		products += g * (e - origin);
		EACH(TAKE)
		if (TRAINING == 1) watched(all, known, m, v);
		else m = origin;
		sum = added(within(sums));
		along = added(within(products)) - (m - origin) * sum;
	} else {
		if (TRAINING == 1) STATISTICS(all, m, v)
		else m = mean[row];
		V sums = V(0), products = V(0);
#define FLOW(k, i) \
		if (i < n) { \
			if (TRAINING != 1) held[min(k, SLOTS - 1)] = ROW(i); \
			V g = dy[place(i)]; \
			heldToo[min(k, SLOTS - 1)] = g; \
			sums += g; \
			products += g * (held[min(k, SLOTS - 1)] - m); \
		}
		EACH(FLOW)
		sum = added(within(sums));
		along = added(within(products));
	}
	if (TRAINING == 1) v /= all;
	else {
		m = mean[row];
		v = variance[row];
	}
	float inv = TRAINING == 2 ? v : 1 / sqrt(v + epsilon);
	if (me == 0) {
		if (BACK == 0) {
			if ((WANTED & 1) != 0) first[row] = mean[row] * momentum + m * (1 - momentum);
			if ((WANTED & 2) != 0) second[row] = variance[row] * momentum + v * (1 - momentum);
			if ((WANTED & 4) != 0) kept[row] = m;
			if ((WANTED & 8) != 0) keptInv[row] = inv;
		} else {
			if ((WANTED & 1) != 0) first[row] = along * inv;
			if ((WANTED & 2) != 0) second[row] = sum;
		}
	}
	float gain = scale[row] * inv, b = 0, slope = 0, more = 0;
	if (BACK == 0) b = bias[row];
	else if (TRAINING != 0) {
		slope = -gain * along * inv * inv / all;
		more = -gain * sum / all;
	}
#define RESULT(k, i) \
	if (i < n) { \
		V e = BACK == 0 && TRAINING != 1 ? ROW(i) : BACK_FROM(held, stored, k, i, ROW(i)); \
		if (BACK == 0) y[place(i)] = (e - m) * gain + b; \
		else y[place(i)] = gain * BACK_FROM(heldToo, storedToo, k, i, dy[place(i)]) + slope * (e - m) + more; \
	}
	EACH(RESULT)
}
