// Normalised channels of [N, C, inner], forward and backward, as batchnorm.comp has them in one pass, on devices whose
// groups share fast memory: a team owns a channel. Each element is read once, where the team holds it; else the statistics are
// of one reading, and so are the sums of a gradient.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint BACK = 0;
layout(constant_id = 5) const uint TRAINING = 0; // as batchnorm.comp's
layout(constant_id = 6) const uint WANTED = 0;

layout(push_constant) uniform Push {
	uint n, channels, inner; // inner is of V
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

void main() {
	if (!join(channels)) return;
	uint count = n * inner;
	float all = float(count * WIDE), m, v;
	V of[SLOTS], flow[SLOTS];
	if (HELD != 0) {
		EACH(k, i, count) {
			of[k] = V(0);
			flow[k] = V(0);
			if (i >= count) continue;
			of[k] = x[place(i)];
			if (BACK != 0) flow[k] = dy[place(i)];
		}
	}
	if (TRAINING != 1) {
		m = mean[row];
		v = variance[row];
	} else if (HELD != 0) {
		V sum = V(0), spread = V(0);
		EACH(k, i, count) sum += of[k];
		m = added(within(sum)) / all;
		EACH(k, i, count) {
			if (i < count) spread += (of[k] - m) * (of[k] - m);
		}
		v = added(within(spread)) / all;
	} else {
		float known = 0, away = 0; // elements seen, and what their squares about m add up to
		m = 0;
		EACH(k, i, count) {
			V some = x[place(i)];
			float middle = within(some) / float(WIDE), step = middle - m, next = known + float(WIDE);
			some -= middle;
			m += step * (float(WIDE) / next);
			away += within(some * some) + step * step * (known * float(WIDE) / next);
			known = next;
		}
		float mine = m;
		m = added(mine * known) / all;
		v = added(away + (mine - m) * (mine - m) * known) / all;
	}
	float inv = TRAINING == 2 ? v : 1 / sqrt(v + epsilon), sum = 0, along = 0;
	if (BACK != 0) {
		V sums = V(0), products = V(0);
		EACH(k, i, count) {
			if (i >= count) break;
			V g = HELD != 0 ? flow[k] : dy[place(i)];
			sums += g;
			products += g * ((HELD != 0 ? of[k] : x[place(i)]) - m);
		}
		sum = added(within(sums));
		along = added(within(products));
	}
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
	EACH(k, i, count) {
		if (i >= count) break;
		V d = (HELD != 0 ? of[k] : x[place(i)]) - m;
		if (BACK == 0) y[place(i)] = d * gain + b;
		else y[place(i)] = gain * (HELD != 0 ? flow[k] : dy[place(i)]) + slope * d + more;
	}
}
