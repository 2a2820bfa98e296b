// Elements at places that indices tell: lines of steps, each of which meets one
// element of the data. What a step brings (or takes) lies at its place in U; its
// place in the data is its line's, and for each of its indices a stride.
//
// MODE 0: an invocation owns a step, and takes an element of the data. Else an
// invocation owns a line, no two of which meet, and brings its steps in order: 1
// as they are, 2 added, 3 multiplied, 4 the greater, 5 the less. An index is as
// wide as STEP words, of which the low one counts; one that is outside takes NaN,
// or brings nothing.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint STEP = 2;

layout(push_constant) uniform Push {
	uint lines, steps, indexStep, elementStep, parts; // parts: indices of a step
	uint dims[4], indexAt[4], elementAt[4], dataAt[4]; // of lines
	int sizes[5], strides[5];
};

layout(binding = 0) buffer Y { ELEMENT y[]; };          // MODE 0: what is taken, else the data
layout(binding = 1) readonly buffer X { ELEMENT x[]; }; // the data, what is brought
layout(binding = 2) readonly buffer Indices { int indices[]; };

#define NOTHING 0x7fc00000 // NaN, where elements of four bytes are carried

#ifdef FOLDS
ELEMENT meet(ELEMENT old, ELEMENT brought) {
	if (MODE == 2) return old + brought;
	if (MODE == 3) return old * brought;
	if (old != old || brought != brought) return old + brought;
	return MODE == 4 ? max(old, brought) : min(old, brought);
}
#endif

bool place(uint first, inout int at) {
	for (uint j = 0; j < parts; j++) {
		int v = indices[(first + j) * STEP];
		if (v < 0) v += sizes[j];
		if (v < 0 || v >= sizes[j]) return false;
		at += v * strides[j];
	}
	return true;
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex, line = i, step = 0;
	if (MODE == 0) {
		line = i % lines;
		step = i / lines;
		if (step >= steps) return;
	}
	if (line >= lines) return;
	uint index = 0, element = 0;
	int data = 0;
	[[unroll]] for (int d = 3; d >= 0; d--) {
		uint k = line % dims[d];
		line /= dims[d];
		index += k * indexAt[d];
		element += k * elementAt[d];
		data += int(k * dataAt[d]);
	}
	if (MODE == 0) {
		if (place(index + step * indexStep, data)) y[element + step * elementStep] = x[data];
		else y[element + step * elementStep] = ELEMENT(NOTHING);
		return;
	}
	for (; step < steps; step++) {
		int at = data;
		if (!place(index + step * indexStep, at)) continue;
#ifdef FOLDS
		if (MODE != 1) {
			y[at] = meet(y[at], x[element + step * elementStep]);
			continue;
		}
#endif
		y[at] = x[element + step * elementStep];
	}
}
