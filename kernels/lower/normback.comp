// The gradient of normalised rows by x, on devices whose groups share fast memory, for rows that are longer than normgrad.comp has
// them, and for those whose scale is spread over runs of elements, as channels of a group have it. A team owns a row and keeps
// of x and dy what it can. PASS 0: dx, and of each channel of the row (SPREAD) what dy and dy·(x − origin) add up to, behind the mean less the origin and
// 1/√(variance + ε) of each row. PASS 1: an invocation owns an element of the scale and adds up those. PASS 2: the mean and 1/√(variance + ε) of each row
// alone, for the sums of columns, which must be made before dx may lie over dy or x. PASS 3: those, and at dots what each row needs for dx besides, for the
// pass over columns to make dx, too (norm.comp).
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint PASS = 0;
layout(constant_id = 5) const uint CENTRED = 1;
layout(constant_id = 6) const uint STATS = 0; // the statistics are kept
layout(constant_id = 7) const uint SPREAD = 0;
layout(constant_id = 8) const uint SCALE = 1; // PASS 1: the gradient of the scale is wanted; PASS 0 with SPREAD: sums are
layout(constant_id = 9) const uint BIAS = 1;

layout(push_constant) uniform Push {
	uint rows, n; // their length is of V
	float epsilon;
	uint cycle, each, run; // with SPREAD: rows of scale, their length, elements that share one
	uint dots;
};

layout(binding = 0) buffer Y { V y[]; }; // dx
layout(binding = 1) readonly buffer X { V x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer DY { V dy[]; };
layout(binding = 4) buffer Work { float work[]; };
layout(binding = 5) buffer DBias { float dbias[]; };
layout(binding = 6) readonly buffer KeptMean { float keptMean[]; };
layout(binding = 7) readonly buffer KeptInv { float keptInv[]; };
layout(binding = 0) buffer DScale { float dscale[]; };
layout(binding = 2) readonly buffer ScaleV { V scaleV[]; };

shared V storedToo[STORED == 0 ? 1 : STORED]; // of dy

uint at; // of the row
#define ROW(i) x[at + i]
#define TOO(i) dy[at + i]

// weighed is an element of dy times that of the scale. The scale of a channel comes later.
V weighed(V g, uint i) {
	if (SPREAD == 0) g *= scaleV[i];
	return g;
}

void sumsOfRows() {
	if (!join(cycle * each)) return;
	float s = 0, b = 0;
	for (uint r = row / each; r < rows; r += cycle) {
		uint of = 2 * rows + 2 * (r * each + row % each);
		b += work[of];
		s += (work[of + 1] - work[2 * r] * work[of]) * work[2 * r + 1];
	}
	if (SCALE != 0) dscale[row] = s;
	if (BIAS != 0) dbias[row] = b;
}

void main() {
	if (PASS == 1) {
		sumsOfRows();
		return;
	}
	if (!join(rows)) return;
	at = row * n;
	float count = float(n * WIDE), m = 0, away = 0, known = 0, less = 0, along = 0;
	V held[SLOTS], heldToo[SLOTS];
	if (PASS == 2) {
		STATISTICS(count, m, away)
		if (me == 0) {
			work[2 * row] = m;
			work[2 * row + 1] = 1 / sqrt(away / count + epsilon);
		}
		return;
	}
	float origin = CENTRED == 0 ? 0 : STATS != 0 ? keptMean[row] : within(ROW(0)) / float(WIDE);
	const bool watches = STATS == 0 && REST != 0;
	uint channels = SPREAD != 0 ? each : 1, wide = SPREAD != 0 ? run / WIDE : n;
	if (REST == 0) {
		if (STATS == 0) STATISTICS(count, m, away)
		if (CENTRED != 0 && STATS == 0) origin = m;
#define TAKE(k, i) \
		if (STATS != 0) held[min(k, SLOTS - 1)] = V(0); \
		heldToo[min(k, SLOTS - 1)] = V(0); \
		if (i < n) { \
			if (STATS != 0) held[min(k, SLOTS - 1)] = ROW(i); \
			heldToo[min(k, SLOTS - 1)] = TOO(i); \
		}
		EACH(TAKE)
	}
	for (uint c = 0; c < channels; c++) {
		V sums = V(0), products = V(0);
		if (REST == 0) {
#define SUM(k, i) \
			if (i < n && (SPREAD == 0 || i / wide == c)) { \
				V g = weighed(heldToo[min(k, SLOTS - 1)], i); \
				sums += g; \
				products += g * (held[min(k, SLOTS - 1)] - origin); \
			}
			EACH(SUM)
		} else {
			// By channels, not by registers: those of an invocation are in one as a rule.
			for (uint i = c * wide + me; i < (c + 1) * wide; i += TEAM) {
				V e = ROW(i), g = TOO(i);
				if (STORED != 0 && i < STORED) {
					stored[i] = e;
					storedToo[i] = g;
				}
				if (watches) {
					if (CENTRED != 0) watch(e, known, m, away);
					else away += within(e * e);
				}
				g = weighed(g, i);
				sums += g;
				products += g * (e - origin);
			}
		}
		float b = added(within(sums)), s = added(within(products));
		if (SPREAD != 0) {
			if (SCALE != 0 && me == 0) {
				uint to = 2 * rows + 2 * (row * each + c);
				work[to] = b;
				work[to + 1] = s;
			}
			float factor = scale[row % cycle * each + c];
			b *= factor;
			s *= factor;
		}
		less += b;
		along += s;
	}
	if (watches) {
		if (CENTRED != 0) watched(count, known, m, away);
		else away = added(away);
	} else if (STATS != 0 || REST == 0) m = origin;
	float inv = STATS != 0 ? keptInv[row] : 1 / sqrt(away / count + epsilon);
	if (SPREAD != 0 && SCALE != 0 && me == 0) {
		work[2 * row] = m - origin;
		work[2 * row + 1] = inv;
	}
	along = (along - (m - origin) * less) * inv / count * inv;
	less = CENTRED != 0 ? less / count : 0;
	if (PASS == 3) {
		if (me == 0) {
			work[2 * row] = m;
			work[2 * row + 1] = inv;
			work[dots + 2 * row] = less;
			work[dots + 2 * row + 1] = along;
		}
		return;
	}
#define RESULT(k, i) \
	if (i < n) { \
		V e = REST == 0 ? held[min(k, SLOTS - 1)] : STORED != 0 && i < STORED ? stored[i] : ROW(i); \
		V g = REST == 0 ? heldToo[min(k, SLOTS - 1)] : STORED != 0 && i < STORED ? storedToo[i] : TOO(i); \
		g = SPREAD != 0 ? g * scale[row % cycle * each + i / wide] : weighed(g, i); \
		y[at + i] = inv * (g - less - (e - m) * along); \
	}
	if (REST == 0) {
		EACH(RESULT)
	} else
		for (uint i = me; i < n; i += TEAM) { RESULT(HELD, i) }
}
