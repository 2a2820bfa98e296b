// Normalised rows: y = (x − mean)·inv·scale + bias over rows of a width, and the
// gradients. Scale and bias are as long as a row; or with SPREAD there are rows of
// them in a cycle, each element for a run of a row's.
// With WIDE a row is whole fours, and a lane takes four neighbours at once; PASS 2
// some of these, LOCAL apart, so that a row's part is more than a line of a cache.
// A dispatch may see some of the rows alone, in x, y and dy; the rest is of all.
//
// PASS 0: y, and the statistics if wanted. PASS 1: the statistics of a row to
// work. PASS 2: a lane owns a column and sums dy·(x − mean)·inv and dy over a part
// of the rows, to work behind the statistics; with DOTS dx, too, as those of each row are behind the sums of parts (normback.comp).
// PASS 3: the sums of the parts. PASS 4: dx, which may lie over dy or x. PASS 5:
// what 2 and 3 are, with SPREAD: a subgroup owns an element of the scale.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint CENTRED = 1;
layout(constant_id = 3) const uint BIAS = 0;  // PASS 0: there is one; PASS 3: its gradient is wanted
layout(constant_id = 4) const uint SCALE = 1; // PASS 3: its gradient is wanted
layout(constant_id = 5) const uint STATS = 0; // PASS 0: bit 0 mean, bit 1 inv are wanted; PASS 1: they are kept
layout(constant_id = 6) const uint SPREAD = 0;
layout(constant_id = 7) const uint WIDE = 0;
layout(constant_id = 8) const uint FOURS = 1; // WIDE in PASS 2: a lane's
layout(constant_id = 9) const uint DOTS = 0;  // PASS 2: dx is wanted

layout(push_constant) uniform Push {
	uint rows, width, parts;
	float epsilon;
	uint first, seen;      // of the rows: where those begin that are seen, and how many
	uint cycle, each, run; // with SPREAD: rows of scale, their length, elements that share one
};

layout(binding = 0) buffer Y { float y[]; };          // y, dx; PASS 3: dscale
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };    // bias, dy
layout(binding = 4) buffer Mean { float mean[]; };
layout(binding = 5) buffer Inv { float inv[]; };
layout(binding = 6) buffer Work { float work[]; };    // mean and inv of each row, then sums of parts
layout(binding = 7) buffer DBias { float dbias[]; };
layout(binding = 8) readonly buffer KeptMean { float keptMean[]; };
layout(binding = 9) readonly buffer KeptInv { float keptInv[]; };
layout(binding = 0) buffer Y4 { vec4 y4[]; };
layout(binding = 1) readonly buffer X4 { vec4 x4[]; };
layout(binding = 2) readonly buffer Scale4 { vec4 scale4[]; };
layout(binding = 3) readonly buffer Bias4 { vec4 bias4[]; };

float total(vec4 v) { return subgroupAdd((v.x + v.y) + (v.z + v.w)); }

uint affine(uint row, uint i) { return SPREAD != 0 ? row % cycle * each + i / run : i; }

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	if (PASS == 2 || PASS == 3) {
		uint column = group * LOCAL + gl_LocalInvocationIndex;
		if (PASS == 2 && WIDE != 0) {
			uint fours = width / 4, begin = group * LOCAL * FOURS + gl_LocalInvocationIndex;
			vec4 d[FOURS], s[FOURS];
			uint columns[FOURS];
			for (uint k = 0; k < FOURS; k++) {
				d[k] = s[k] = vec4(0);
				columns[k] = min(begin + k * LOCAL, fours - 1);
			}
			uint each = (rows + parts - 1) / parts, part = gl_WorkGroupID.z + first / each, dots = 2 * rows + 2 * parts * width;
			uint to = min((part + 1) * each, rows);
			for (uint r = part * each; r < to; r += 32) {
				vec4 d32[FOURS], s32[FOURS];
				for (uint k = 0; k < FOURS; k++) d32[k] = s32[k] = vec4(0);
				for (uint row = r; row < min(r + 32, to); row++) {
					uint at = (row - first) * fours;
					float m = work[2 * row], inv = work[2 * row + 1];
					float less = DOTS != 0 ? work[dots + 2 * row] : 0, along = DOTS != 0 ? work[dots + 2 * row + 1] : 0;
					for (uint k = 0; k < FOURS; k++) {
						vec4 g = bias4[at + columns[k]], v = x4[at + columns[k]] - m;
						s32[k] += g * (v * inv);
						d32[k] += g;
						if (DOTS != 0 && begin + k * LOCAL < fours) y4[at + columns[k]] = inv * (g * scale4[columns[k]] - less - v * along);
					}
				}
				for (uint k = 0; k < FOURS; k++) {
					s[k] += s32[k];
					d[k] += d32[k];
				}
			}
			for (uint k = 0; k < FOURS; k++) {
				if (begin + k * LOCAL >= fours) return;
				// What lies before the sums may be no whole fours.
				uint at = 2 * rows + 2 * part * width + 4 * columns[k];
				work[at] = s[k].x;
				work[at + 1] = s[k].y;
				work[at + 2] = s[k].z;
				work[at + 3] = s[k].w;
				at += width;
				work[at] = d[k].x;
				work[at + 1] = d[k].y;
				work[at + 2] = d[k].z;
				work[at + 3] = d[k].w;
			}
			return;
		}
		if (column >= width) return;
		float d = 0, s = 0;
		if (PASS == 2) {
			uint each = (rows + parts - 1) / parts, part = gl_WorkGroupID.z + first / each, dots = 2 * rows + 2 * parts * width;
			uint to = min((part + 1) * each, rows);
			for (uint r = part * each; r < to; r += 32) {
				float d32 = 0, s32 = 0;
				for (uint k = r; k < min(r + 32, to); k++) {
					uint at = (k - first) * width + column;
					float g = bias[at], v = x[at] - work[2 * k], inv = work[2 * k + 1];
					s32 += g * (v * inv);
					d32 += g;
					if (DOTS != 0) y[at] = inv * (g * scale[column] - work[dots + 2 * k] - v * work[dots + 2 * k + 1]);
				}
				s += s32;
				d += d32;
			}
			uint at = 2 * rows + 2 * part * width + column;
			work[at] = s;
			work[at + width] = d;
			return;
		}
		for (uint part = 0; part < parts; part++) {
			uint at = 2 * rows + 2 * part * width + column;
			s += work[at];
			d += work[at + width];
		}
		if (SCALE != 0) y[column] = s;
		if (BIAS != 0) dbias[column] = d;
		return;
	}
	uint row = group * gl_NumSubgroups + gl_SubgroupID;
	if (PASS == 5) {
		if (row >= cycle * each) return;
		uint first = row / each, terms = rows / cycle * run, block = 32 * gl_SubgroupSize;
		float d = 0, s = 0;
		for (uint b = 0; b < terms; b += block) {
			float d32 = 0, s32 = 0;
			for (uint k = b + gl_SubgroupInvocationID; k < min(b + block, terms); k += gl_SubgroupSize) {
				uint r = first + k / run * cycle, i = r * width + row % each * run + k % run;
				s32 += bias[i] * ((x[i] - work[2 * r]) * work[2 * r + 1]);
				d32 += bias[i];
			}
			s += s32;
			d += d32;
		}
		s = subgroupAdd(s);
		d = subgroupAdd(d);
		if (subgroupElect()) {
			if (SCALE != 0) y[row] = s;
			if (BIAS != 0) dbias[row] = d;
		}
		return;
	}
	if (row >= seen) return;
	uint all = first + row; // the row among all
	uint at = row * width, lane = gl_SubgroupInvocationID, step = gl_SubgroupSize;
	float m = 0, s;
	if (PASS == 4) {
		m = work[2 * all];
		s = work[2 * all + 1];
		if (WIDE != 0) {
			uint fours = width / 4, first = row * fours;
			vec4 g4 = vec4(0), n4 = vec4(0);
			for (uint i = lane; i < fours; i += step) {
				vec4 v = bias4[first + i] * scale4[i];
				g4 += v;
				n4 += v * (x4[first + i] - m);
			}
			float g = CENTRED != 0 ? total(g4) / float(width) : 0, gn = total(n4) * s / float(width) * s;
			for (uint i = lane; i < fours; i += step) y4[first + i] = s * (bias4[first + i] * scale4[i] - g - (x4[first + i] - m) * gn);
			return;
		}
		float g = 0, gn = 0;
		for (uint i = lane; i < width; i += step) {
			float v = bias[at + i] * scale[affine(row, i)];
			g += v;
			gn += v * (x[at + i] - m);
		}
		g = CENTRED != 0 ? subgroupAdd(g) / float(width) : 0;
		gn = subgroupAdd(gn) * s / float(width) * s;
		for (uint i = lane; i < width; i += step) y[at + i] = s * (bias[at + i] * scale[affine(row, i)] - g - (x[at + i] - m) * gn);
		return;
	}
	if (PASS == 1 && STATS != 0) {
		if (CENTRED != 0) m = keptMean[all];
		s = keptInv[all];
	} else if (WIDE != 0) {
		uint fours = width / 4, first = row * fours;
		vec4 all = vec4(0), spread = vec4(0);
		if (CENTRED != 0) {
			for (uint i = lane; i < fours; i += step) all += x4[first + i];
			m = total(all) / float(width);
		}
		for (uint i = lane; i < fours; i += step) {
			vec4 v = x4[first + i] - m;
			spread += v * v;
		}
		s = 1 / sqrt(total(spread) / float(width) + epsilon);
	} else {
		if (CENTRED != 0) {
			for (uint i = lane; i < width; i += step) m += x[at + i];
			m = subgroupAdd(m) / float(width);
		}
		float spread = 0;
		for (uint i = lane; i < width; i += step) {
			float v = x[at + i] - m;
			spread += v * v;
		}
		s = 1 / sqrt(subgroupAdd(spread) / float(width) + epsilon);
	}
	if (PASS == 1) {
		if (subgroupElect()) {
			work[2 * all] = m;
			work[2 * all + 1] = s;
		}
		return;
	}
	if (subgroupElect()) {
		if ((STATS & 1) != 0) mean[all] = m;
		if ((STATS & 2) != 0) inv[all] = s;
	}
	if (WIDE != 0) {
		uint fours = width / 4, first = row * fours;
		for (uint i = lane; i < fours; i += step) {
			vec4 v = (x4[first + i] - m) * s * scale4[i];
			if (BIAS != 0) v += bias4[i];
			y4[first + i] = v;
		}
		return;
	}
	for (uint i = lane; i < width; i += step) {
		float v = (x[at + i] - m) * s * scale[affine(row, i)];
		y[at + i] = BIAS != 0 ? v + bias[affine(row, i)] : v;
	}
}
