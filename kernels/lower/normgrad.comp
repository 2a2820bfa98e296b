// The gradients of normalised rows (norm.comp) for devices whose groups share fast memory, with
// x and dy read once. A team has a row in registers: its statistics, dx, and what the row
// adds to the sums of its columns. The teams of a group take the rows of a part in turn, and add
// up their columns one after another. PASS 0 is that, to the sums of the part in work; PASS 1 the sums
// of the parts, of which each line of invocations takes a share.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

//team.glsl
layout(constant_id = 4) const uint PASS = 0;
layout(constant_id = 5) const uint CENTRED = 1;
layout(constant_id = 6) const uint STATS = 0; // the statistics are kept
layout(constant_id = 7) const uint BACK = 1;  // dx is wanted
layout(constant_id = 8) const uint SCALE = 1; // the gradient of the scale is wanted
layout(constant_id = 9) const uint BIAS = 1;  // that of the bias is

layout(push_constant) uniform Push {
	uint rows, width, parts;
	float epsilon;
};

layout(binding = 0) buffer Y { float y[]; }; // dx; PASS 1: dscale
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer DY { float dy[]; };
layout(binding = 4) buffer Work { float work[]; }; // behind two of each row, the sums of parts
layout(binding = 5) buffer DBias { float dbias[]; };
layout(binding = 6) readonly buffer KeptMean { float keptMean[]; };
layout(binding = 7) readonly buffer KeptInv { float keptInv[]; };
layout(binding = 0) buffer Y4 { vec4 y4[]; };
layout(binding = 1) readonly buffer X4 { vec4 x4[]; };
layout(binding = 2) readonly buffer Scale4 { vec4 scale4[]; };
layout(binding = 3) readonly buffer DY4 { vec4 dy4[]; };

shared vec4 sums[2 * HELD * LANES]; // of a subgroup's columns

float total(vec4 v) { return added(within(v)); }

void sumsOfParts() {
	const uint lines = LOCAL / LANES;
	uint me = gl_LocalInvocationIndex % LANES, line = gl_LocalInvocationIndex / LANES;
	uint column = gl_WorkGroupID.x * LANES + me;
	vec2 sum = vec2(0);
	if (column < width)
		for (uint part = line; part < parts; part += lines) {
			uint at = 2 * rows + 2 * part * width + column;
			sum += vec2(work[at], work[at + width]);
		}
	for (uint k = 0; k < lines; k++) {
		if (line == k) sums[me].xy = k == 0 ? sum : sums[me].xy + sum;
		barrier();
	}
	if (line > 0 || column >= width) return;
	if (SCALE != 0) y[column] = sums[me].x;
	if (BIAS != 0) dbias[column] = sums[me].y;
}

void main() {
	if (PASS == 1) {
		sumsOfParts();
		return;
	}
	const uint lines = LOCAL / TEAM;
	uint line = TEAM == LOCAL ? 0 : gl_SubgroupID, lane = TEAM == LOCAL ? gl_LocalInvocationIndex : gl_SubgroupInvocationID, fours = width / 4;
	uint each = (rows + parts - 1) / parts, part = gl_WorkGroupID.x, to = min((part + 1) * each, rows);
	vec4 factors[HELD], ofScale[HELD], ofBias[HELD];
	[[unroll]] for (uint k = 0; k < HELD; k++) {
		uint i = lane + k * TEAM;
		factors[k] = BACK != 0 && i < fours ? scale4[i] : vec4(0);
		ofScale[k] = ofBias[k] = vec4(0);
	}
	for (uint row = part * each + line; row < to; row += lines) {
		vec4 v[HELD], g[HELD];
		[[unroll]] for (uint k = 0; k < HELD; k++) {
			uint i = lane + k * TEAM;
			v[k] = g[k] = vec4(0);
			if (i < fours) {
				v[k] = x4[row * fours + i];
				g[k] = dy4[row * fours + i];
			}
		}
		float m = 0, inv;
		vec4 all = vec4(0), spread = vec4(0);
		if (STATS != 0) {
			if (CENTRED != 0) m = keptMean[row];
			inv = keptInv[row];
		} else {
			if (CENTRED != 0) {
				[[unroll]] for (uint k = 0; k < HELD; k++) all += v[k];
				m = total(all) / float(width);
			}
			[[unroll]] for (uint k = 0; k < HELD; k++)
				if (lane + k * TEAM < fours) spread += (v[k] - m) * (v[k] - m);
			inv = 1 / sqrt(total(spread) / float(width) + epsilon);
		}
		vec4 g4 = vec4(0), n4 = vec4(0);
		[[unroll]] for (uint k = 0; k < HELD; k++) {
			v[k] -= m;
			ofScale[k] += g[k] * (v[k] * inv);
			ofBias[k] += g[k];
			g[k] *= factors[k];
			g4 += g[k];
			n4 += g[k] * v[k];
		}
		if (BACK == 0) continue;
		float less = CENTRED != 0 ? total(g4) / float(width) : 0, along = total(n4) * inv / float(width) * inv;
		[[unroll]] for (uint k = 0; k < HELD; k++) {
			uint i = lane + k * TEAM;
			if (i < fours) y4[row * fours + i] = inv * (g[k] - less - v[k] * along);
		}
	}
	if (SCALE == 0 && BIAS == 0) return;
	if (TEAM == LOCAL) {
		[[unroll]] for (uint k = 0; k < HELD; k++) {
			uint i = lane + k * TEAM, at = 2 * rows + 2 * part * width + 4 * i;
			if (i >= fours) break;
			[[unroll]] for (uint e = 0; e < 4; e++) {
				work[at + e] = ofScale[k][e];
				work[at + width + e] = ofBias[k][e];
			}
		}
		return;
	}
	for (uint l = 0; l < lines; l++) {
		if (line == l)
			[[unroll]] for (uint k = 0; k < HELD; k++) {
				uint i = k * LANES + lane;
				sums[i] = l == 0 ? ofScale[k] : sums[i] + ofScale[k];
				sums[HELD * LANES + i] = l == 0 ? ofBias[k] : sums[HELD * LANES + i] + ofBias[k];
			}
		barrier();
	}
	for (uint i = gl_LocalInvocationIndex; i < width; i += LOCAL) {
		uint at = 2 * rows + 2 * part * width + i;
		work[at] = sums[i / 4][i % 4];
		work[at + width] = sums[HELD * LANES + i / 4][i % 4];
	}
}
