// The lines of row.comp, on devices whose groups share fast memory: each element is read once, where a team
// holds its line, and else twice. Lines that are inner apart have a team of one.
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

void main() {
	if (!join(lines)) return;
	uint at = row / inner * inner * n + row % inner;
	V v[SLOTS], w[SLOTS];
	if (RULE == 2 || RULE == 3) {
		V terms = V(0);
		EACH(k, i, n) {
			V g = V(0), p = V(0);
			if (i < n) {
				g = a[at + i * inner];
				p = b[at + i * inner];
			}
			terms += RULE == 2 ? g * p : g;
			if (HELD != 0) {
				v[k] = g;
				w[k] = p;
			}
		}
		float sum = added(within(terms));
		EACH(k, i, n) {
			if (i >= n) break;
			V g = HELD != 0 ? v[k] : a[at + i * inner], p = HELD != 0 ? w[k] : b[at + i * inner];
			y[at + i * inner] = RULE == 2 ? p * (g - sum) : g - exp(p) * sum;
		}
		return;
	}
	float top = -INFINITE, sum = 0;
	if (HELD != 0) {
		EACH(k, i, n) {
			v[k] = V(-INFINITE);
			if (i < n) v[k] = a[at + i * inner];
			top = max(top, most(v[k]));
		}
		top = greatest(top);
		V terms = V(0);
		EACH(k, i, n) {
			if (i < n) terms += exp(v[k] - top);
		}
		sum = added(within(terms));
	} else {
		EACH(k, i, n) expect(a[at + i * inner], top, sum);
		expected(top, sum);
	}
	float scale = 1 / sum, shift = log(sum);
	bool none = RULE == 4 && (isnan(sum) || isnan(top) || isinf(scale));
	EACH(k, i, n) {
		if (i >= n) break;
		V x = HELD != 0 ? v[k] : a[at + i * inner];
		if (none) y[at + i * inner] = V(0);
		else if (RULE != 1) y[at + i * inner] = exp(x - top) * scale;
		else y[at + i * inner] = x - top - shift;
	}
}
