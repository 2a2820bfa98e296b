// The gradient of a product along axes: an invocation owns an element of the
// product and goes over its terms twice. Offsets as in reduce.comp.
#version 450

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
	uint results, terms;
	uint stay[3], stayAt[3], gone[3], goneAt[3]; // dims and strides, outer first
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer Slope { float slope[]; };
layout(binding = 2) readonly buffer X { float x[]; };

uint term(uint i) { return i / gone[2] / gone[1] * goneAt[0] + i / gone[2] % gone[1] * goneAt[1] + i % gone[2] * goneAt[2]; }

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (i >= results) return;
	uint base = i / stay[2] / stay[1] * stayAt[0] + i / stay[2] % stay[1] * stayAt[1] + i % stay[2] * stayAt[2], zeros = 0;
	float product = 1;
	for (uint k = 0; k < terms; k++) {
		float v = x[base + term(k)];
		if (v == 0) zeros++;
		else product *= v;
	}
	for (uint k = 0; k < terms; k++) {
		float v = x[base + term(k)], others = product;
		if (zeros > 1 || zeros == 1 && v != 0) others = 0;
		else if (v != 0) others /= v;
		y[base + term(k)] = slope[i] * others;
	}
}
