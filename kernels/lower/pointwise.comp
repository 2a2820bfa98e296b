// One element of z from one each of a, b and c, broadcast: whatever the
// generated function calculate says. Operands are seen under z's shape with dims
// that are broadcast alike merged. Local size 256; with WIDE an invocation owns four
// neighbours along the innermost dim, else one.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint EXPRESSION = 0;
layout(constant_id = 1) const uint RANK = 1;
layout(constant_id = 2) const uint SINGLE = 0; // bit k: operand k has stride 0 along the innermost dim

layout(push_constant) uniform Push {
	uint n; // elements of z
	float p, q;
	uint dims[5], sa[5], sb[5], sc[5];
};

layout(binding = 0) buffer Z { STORED_Z z[]; };
layout(binding = 1) readonly buffer A { STORED_A a[]; };
layout(binding = 2) readonly buffer B { STORED_B b[]; };
layout(binding = 3) readonly buffer C { STORED_C c[]; };

#ifdef WIDE
layout(binding = 0) buffer Z4 { vec4 z4[]; };
layout(binding = 1) readonly buffer A4 { vec4 a4[]; };
layout(binding = 2) readonly buffer B4 { vec4 b4[]; };
layout(binding = 3) readonly buffer C4 { vec4 c4[]; };
#endif

EXPRESSIONS

CALCULATE

#define LINE ((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex)

void main() {
#ifdef WIDE
	uint first = 4 * LINE;
#else
	uint first = LINE;
#endif
	if (first >= n) return;
	uint at = first, ia = 0, ib = 0, ic = 0;
	if (RANK == 1) {
		ia = at * sa[0];
		ib = at * sb[0];
		ic = at * sc[0];
	} else {
		[[unroll]] for (int d = 4; d >= 0; d--) {
			if (d >= RANK) continue;
			uint i = d == 0 ? at : at % dims[d];
			at /= dims[d];
			ia += i * sa[d];
			ib += i * sb[d];
			ic += i * sc[d];
		}
	}
#ifdef WIDE
	if (first + 4 <= n) {
		T x = (SINGLE & 1) != 0 ? T(a[ia]) : a4[ia >> 2];
		T y = (SINGLE & 2) != 0 ? T(b[ib]) : b4[ib >> 2];
		T w = (SINGLE & 4) != 0 ? T(c[ic]) : c4[ic >> 2];
		z4[first >> 2] = calculate(x, y, w);
		return;
	}
	// The end of a flat list.
	for (uint i = 0; first + i < n; i++)
		z[first + i] = calculate(T(a[ia + i * sa[0]]), T(b[ib + i * sb[0]]), T(c[ic + i * sc[0]])).x;
#else
	z[first] = STORED_Z(calculate(SEEN_A(a[ia]), SEEN_B(b[ib]), SEEN_C(c[ic])));
#endif
}
