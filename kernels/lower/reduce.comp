// One number of many. Offsets of what stays and of what goes are told by up to
// three dims each. ALONG 1: a subgroup owns an element of the result and its lanes
// share out the terms; ALONG 0: a lane owns one and takes its terms in order, 32
// at a time. Parts of the terms make results of their own, behind each other, for
// a second run to reduce.
//
// TOGETHER, on devices whose groups share fast memory: a group owns WIDTH neighbouring results, of which LOCAL/WIDTH
// invocations each take every so manieth term; what they have is combined in pairs, always the same.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint ALONG = 0;
layout(constant_id = 2) const uint FOLD = 0;  // 0 sum, 1 greatest, 2 least, 3 product
layout(constant_id = 3) const uint TERM = 0;  // of x: 0 x, 1 x², 2 |x|, 3 e^(x − top)
layout(constant_id = 4) const uint FINAL = 0; // of the result r: 0 r·scale, 1 √r, 2 ln r, 3 top + ln r
layout(constant_id = 5) const uint STAY = 3;  // dims that stay
layout(constant_id = 6) const uint GONE = 3;  // dims that go
layout(constant_id = 7) const uint MORE = 0;  // a lane's result goes on from what there is
#ifdef TOGETHER
layout(constant_id = 8) const uint WIDTH = 32;
shared float all[LOCAL];
#endif

layout(push_constant) uniform Push {
	uint first, results, pitch;    // results from the first on; from a part's results to the next's
	uint firstPart, part, terms;   // parts from the first on; terms of one
	uint before;                   // elements in front of what is seen of x
	float scale;
	uint stay[2], stayAt[3]; // the inner dims; strides, outer first
	uint gone[2], goneAt[3];
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Tops { float tops[]; }; // of each result

float top; // of the result at hand

uint offset(uint dims, uint i, uint d1, uint d2, uint s0, uint s1, uint s2) {
	if (dims == 1) return i * s2;
	if (dims == 2) return i / d2 * s1 + i % d2 * s2;
	return i / d2 / d1 * s0 + i / d2 % d1 * s1 + i % d2 * s2;
}

float fold(float acc, float v) {
	if (FOLD == 0) return acc + v;
	if (FOLD == 3) return acc * v;
	if (isnan(acc) || isnan(v)) return acc + v;
	return FOLD == 1 ? max(acc, v) : min(acc, v);
}

float term(uint base, uint i) {
	float v = x[base + offset(GONE, i, gone[0], gone[1], goneAt[0], goneAt[1], goneAt[2])];
	return TERM == 1 ? v * v : TERM == 2 ? abs(v) : TERM == 3 ? exp(v - top) : v;
}

float finish(float r) {
	if (FINAL == 3) return isinf(top) ? top : top + log(r);
	return FINAL == 1 ? sqrt(r) : FINAL == 2 ? log(r) : r * scale;
}

float nothing() { return FOLD == 0 ? 0 : FOLD == 3 ? 1 : uintBitsToFloat(FOLD == 1 ? 0xff800000 : 0x7f800000); }

float few(uint base, uint from, uint to, uint step) {
	float acc = nothing();
	for (uint i = from; i < to; i += step) acc = fold(acc, term(base, i));
	return acc;
}

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
#ifdef TOGETHER
	const uint lines = LOCAL / WIDTH;
	uint me = gl_LocalInvocationIndex, line = me / WIDTH, own = first + group * WIDTH + me % WIDTH;
	uint mine = min(own, results - 1), share = firstPart + gl_WorkGroupID.z, begin = share * part, end = min(begin + part, terms);
	uint inX = offset(STAY, mine, stay[0], stay[1], stayAt[0], stayAt[1], stayAt[2]) - before, inY = share * pitch + mine;
	if (TERM == 3 || FINAL == 3) top = tops[mine];
	float of = MORE != 0 && line == 0 ? y[inY] : nothing();
	for (uint i = begin; i < end; i += 32 * lines) of = fold(of, few(inX, i + line, min(i + 32 * lines, end), lines));
	all[me] = of;
	barrier();
	for (uint some = lines / 2; some > 0; some /= 2) {
		if (line < some) all[me] = fold(all[me], all[me + some * WIDTH]);
		barrier();
	}
	if (line == 0 && own < results) y[inY] = finish(all[me]);
	return;
#endif
	uint result = first + (ALONG != 0 ? group * gl_NumSubgroups + gl_SubgroupID : group * LOCAL + gl_LocalInvocationIndex);
	if (result >= results) return;
	uint base = offset(STAY, result, stay[0], stay[1], stayAt[0], stayAt[1], stayAt[2]) - before;
	if (TERM == 3 || FINAL == 3) top = tops[result];
	uint z = firstPart + gl_WorkGroupID.z, from = z * part, to = min(from + part, terms);
	uint at = z * pitch + result;
	float acc = MORE != 0 ? y[at] : nothing();
	if (ALONG != 0) {
		uint step = gl_SubgroupSize, block = 32 * step;
		for (uint i = from; i < to; i += block) acc = fold(acc, few(base, i + gl_SubgroupInvocationID, min(i + block, to), step));
		// In pairs of lanes, always the same.
		if (FOLD == 0) acc = subgroupAdd(acc);
		else if (FOLD == 3) acc = subgroupMul(acc);
		else {
			bool bad = subgroupAdd(isnan(acc) ? 1.0 : 0.0) > 0;
			acc = FOLD == 1 ? subgroupMax(acc) : subgroupMin(acc);
			if (bad) acc = uintBitsToFloat(0x7fc00000);
		}
		if (!subgroupElect()) return;
	} else {
		for (uint i = from; i < to; i += 32) acc = fold(acc, few(base, i, min(i + 32, to), 1));
	}
	y[at] = finish(acc);
}
