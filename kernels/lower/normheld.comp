// Normalised rows (PASS 0 of norm.comp) on devices whose groups share fast memory: each element is read once, where a
// team holds its row, and else twice: the statistics of what an invocation has seen go on with each element, and
// those of the invocations are joined.
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

void main() {
	if (!join(seen)) return;
	uint at = row * n;
	float count = float(n * WIDE), m = 0, s;
	V v[SLOTS];
	if (HELD != 0) {
		V all = V(0), spread = V(0);
		EACH(k, i, n) {
			v[k] = V(0);
			if (i < n) v[k] = x[at + i];
			all += v[k];
		}
		if (CENTRED != 0) m = added(within(all)) / count;
		EACH(k, i, n) {
			v[k] -= m;
			if (i < n) spread += v[k] * v[k];
		}
		s = added(within(spread));
	} else {
		float known = 0, away = 0; // elements seen, and what their squares about m add up to
		EACH(k, i, n) {
			V some = x[at + i];
			if (CENTRED == 0) {
				away += within(some * some);
				continue;
			}
			float middle = within(some) / float(WIDE), step = middle - m, next = known + float(WIDE);
			some -= middle;
			m += step * (float(WIDE) / next);
			away += within(some * some) + step * step * (known * float(WIDE) / next);
			known = next;
		}
		if (CENTRED != 0) {
			float mine = m;
			m = added(mine * known) / count;
			away += (mine - m) * (mine - m) * known;
		}
		s = added(away);
	}
	s = 1 / sqrt(s / count + epsilon);
	if (me == 0) {
		if ((STATS & 1) != 0) mean[first + row] = m;
		if ((STATS & 2) != 0) inv[first + row] = s;
	}
	EACH(k, i, n) {
		if (i >= n) break;
		V d = (HELD != 0 ? v[k] : x[at + i] - m) * s;
		if (SPREAD != 0) d *= scale[affine(i)];
		else d *= scaleV[i];
		if (BIAS != 0) {
			if (SPREAD != 0) d += bias[affine(i)];
			else d += biasV[i];
		}
		y[at + i] = d;
	}
}
