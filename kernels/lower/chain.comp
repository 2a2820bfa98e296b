// A library that the kernels of chains are made from (chainlower.go): functions
// that load and store an element of an operand, and one for each expression. A
// kernel is main with bodies for whole and end, and what they call. Operands are
// broadcast to the shape of what is stored, with dims that are broadcast alike
// merged. Local size 256; with WIDE an invocation owns four neighbours along the
// innermost dim, else one.
#version 450

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint SINGLE = 0; // bit k: operand k has stride 0 along the innermost dim
layout(constant_id = 2) const uint D1 = 1;
layout(constant_id = 3) const uint D2 = 1;
layout(constant_id = 4) const uint D3 = 1;
layout(constant_id = 5) const uint D4 = 1;

layout(push_constant) uniform Push { uint n; }; // elements that are stored

EXPRESSIONS

// place is where element i of the shape is, by an operand's strides.
uint place(const uint i, const uint s0, const uint s1, const uint s2, const uint s3, const uint s4) {
	if (RANK == 1) return i * s0;
	uint at = i, to = 0;
	if (RANK > 4) {
		to += at % D4 * s4;
		at /= D4;
	}
	if (RANK > 3) {
		to += at % D3 * s3;
		at /= D3;
	}
	if (RANK > 2) {
		to += at % D2 * s2;
		at /= D2;
	}
	return to + at % D1 * s1 + at / D1 * s0;
}

OPERANDS

STEPS

// The compiler keeps what is called.
void whole(const uint first) { EVERYTHING }
void end(const uint first) { EVERYEND }

void main() {
	uint line = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
#ifdef WIDE
	uint first = 4 * line;
	if (first + 4 <= n) whole(first);
	else if (first < n) end(first); // of a flat list
#else
	if (line < n) whole(line);
#endif
}
