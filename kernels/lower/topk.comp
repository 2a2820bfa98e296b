// The K greatest or least elements of lines, inner apart, and where they are. A
// subgroup owns a line and goes over it K times: what comes next is the first
// element in order behind the last one that was found.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint LEAST = 0;
layout(constant_id = 2) const uint WHOLE = 0;  // elements are float32 (0), int32 (1) or int64, of two words (2)
layout(constant_id = 3) const uint VALUES = 1; // they are wanted, not only their places
layout(constant_id = 4) const uint LAST = 0;   // of equals the last comes first
layout(constant_id = 5) const uint NANS = 0;   // of the least, a NaN is the least

layout(push_constant) uniform Push { uint lines, n, inner, k; };

layout(binding = 0) buffer Y { uint y[]; };
layout(binding = 1) readonly buffer X { uint x[]; };
layout(binding = 2) buffer Places { uint places[]; }; // two words each

// key orders as the elements do, the greatest first: by its first word, then by its
// second.
uvec2 key(uint i) {
	if (WHOLE == 2) {
		uvec2 k = uvec2(x[2 * i + 1] ^ 0x80000000, x[2 * i]);
		return LEAST != 0 ? ~k : k;
	}
	uint v = x[i], k = v ^ 0x80000000;
	if (WHOLE == 0) {
		if ((v & 0x7fffffff) > 0x7f800000) {
			if (NANS != 0) return uvec2(0xffffffff, 0);
			k = 0xffffffff;
		} else if ((v & 0x7fffffff) == 0) k = 0x80000000;
		else k = (v & 0x80000000) != 0 ? ~v : k;
	}
	return uvec2(LEAST != 0 ? ~k : k, 0);
}

bool above(uvec2 a, uvec2 b) { return a.x > b.x || a.x == b.x && a.y > b.y; }

void main() {
	uint line = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
	if (line >= lines) return;
	uint from = line / inner * inner * n + line % inner, to = line / inner * inner * k + line % inner;
	uvec2 lastKey = uvec2(0);
	uint lastAt = 0;
	for (uint j = 0; j < k; j++) {
		uvec2 best = uvec2(0);
		uint at = 0xffffffff;
		for (uint i = gl_SubgroupInvocationID; i < n; i += gl_SubgroupSize) {
			uvec2 e = key(from + i * inner);
			if (j > 0 && (above(e, lastKey) || e == lastKey && i <= lastAt)) continue;
			if (at == 0xffffffff || above(e, best) || LAST != 0 && e == best) {
				best = e;
				at = i;
			}
		}
		lastKey.x = subgroupMax(best.x);
		lastKey.y = subgroupMax(best.x == lastKey.x ? best.y : 0);
		bool mine = at != 0xffffffff && best == lastKey;
		if (LAST != 0) lastAt = subgroupMax(mine ? at : 0);
		else lastAt = subgroupMin(mine ? at : 0xffffffff);
		if (subgroupElect()) {
			uint each = WHOLE == 2 ? 2 : 1;
			for (uint w = 0; VALUES != 0 && w < each; w++) {
				y[each * (to + j * inner) + w] = x[each * (from + lastAt * inner) + w];
			}
			places[2 * (to + j * inner)] = lastAt;
			places[2 * (to + j * inner) + 1] = 0;
		}
	}
}
