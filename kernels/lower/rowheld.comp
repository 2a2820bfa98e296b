// The lines of row.comp, on devices whose groups share fast memory: each element that a team keeps is read once, and the
// others twice. Lines that are inner apart have a team of one.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
//team.glsl
layout(constant_id = 4) const uint RULE = 0; // as row.comp's

layout(push_constant) uniform Push { uint lines, n, inner; }; // n is of V

layout(binding = 0) buffer Y { V y[]; };
layout(binding = 1) readonly buffer A { V a[]; }; // x or dy
layout(binding = 2) readonly buffer B { V b[]; }; // y

shared V storedToo[RULE == 2 || RULE == 3 ? STORED == 0 ? 1 : STORED : 1]; // of y

#define ROW(i) a[at + i * inner]
#define TOO(i) b[at + i * inner]

void main() {
	if (!join(lines)) return;
	uint at = row / inner * inner * n + row % inner;
	V held[SLOTS], heldToo[SLOTS];
	if (RULE == 2 || RULE == 3) {
		V terms = V(0);
#define TAKE(k, i) \
		V g = V(0), p = V(0); \
		if (i < n) { \
			g = ROW(i); \
			p = TOO(i); \
		} \
		terms += RULE == 2 ? g * p : g; \
		KEEP(held, stored, k, i, g) \
		KEEP(heldToo, storedToo, k, i, p)
		EACH(TAKE)
		float sum = added(within(terms));
#define GIVE(k, i) \
		if (i < n) { \
			V g = BACK_FROM(held, stored, k, i, ROW(i)), p = BACK_FROM(heldToo, storedToo, k, i, TOO(i)); \
			y[at + i * inner] = RULE == 2 ? p * (g - sum) : g - exp(p) * sum; \
		}
		EACH(GIVE)
		return;
	}
	float top, sum;
	EXTENT
	float scale = 1 / sum, shift = log(sum);
	bool none = RULE == 4 && (isnan(sum) || isnan(top) || isinf(scale));
#define RESULT(k, i) \
	if (i < n) { \
		V x = BACK_FROM(held, stored, k, i, ROW(i)); \
		if (none) y[at + i * inner] = V(0); \
		else if (RULE != 1) y[at + i * inner] = exp(x - top) * scale; \
		else y[at + i * inner] = x - top - shift; \
	}
	EACH(RESULT)
}
