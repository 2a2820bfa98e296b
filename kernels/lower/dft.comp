// One pass of a discrete Fourier transform of lines, by sums of RADIX terms (Stockham):
// points = radix · stride · m, and an invocation owns one complex number of the result.
// PASS 0: an invocation owns a power of exp(±2πi/points), by eighths of a turn, so that
// quarters are exact. PASS 1: a sum. FIRST reads the operand [before, inAxis, after, parts],
// of which elements beyond inLength are zeros, LAST writes one; in between lines are
// [line, points, 2] in scratch.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PASS = 0;
layout(constant_id = 1) const uint FIRST = 0;
layout(constant_id = 2) const uint LAST = 0;
layout(constant_id = 3) const uint TWICE_IN = 0;  // what has a mirror image counts twice
layout(constant_id = 4) const uint TWICE_OUT = 0;

layout(push_constant) uniform Push {
	uint points, first, lines, after;        // the lines [first, first + lines)
	uint inAxis, inLength, inParts;
	uint outAxis, outLength, outParts;
	uint radix, stride;
	float scale, turn;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Roots { vec2 roots[]; };

float twice(uint on, uint k) { return on != 0 && k != 0 && 2 * k != points ? 2.0 : 1.0; }

vec2 root(uint k) {
	uint eighth = 8 * k / points, rest = 8 * k % points;
	if ((eighth & 1) == 1) rest = points - rest;
	float a = 0.785398163 * (float(rest) / float(points)), s = a * a;
	float sine = a + a * s * (-0.166666667 + s * (8.33333333e-3 + s * (-1.98412698e-4 + s * 2.75573192e-6)));
	float cosine = 1 - s * (0.5 - s * (4.16666667e-2 - s * (1.38888889e-3 - s * 2.48015873e-5)));
	vec2 w = (eighth & 3) == 1 || (eighth & 3) == 2 ? vec2(sine, cosine) : vec2(cosine, sine);
	return vec2(eighth >= 2 && eighth < 6 ? -w.x : w.x, turn * (eighth >= 4 ? -w.y : w.y));
}

vec2 load(uint line, uint k) {
	if (FIRST == 0) return vec2(x[2 * (line * points + k)], x[2 * (line * points + k) + 1]);
	if (k >= inLength) return vec2(0);
	line += first;
	uint at = ((line / after * inAxis + k) * after + line % after) * inParts;
	return twice(TWICE_IN, k) * vec2(x[at], inParts == 2 ? x[at + 1] : 0);
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (PASS == 0) {
		if (i >= points) return;
		vec2 w = root(i);
		y[2 * i] = w.x;
		y[2 * i + 1] = w.y;
		return;
	}
	uint each = LAST != 0 ? outAxis : points, line = i / each, k = i % each;
	if (line >= lines) return;
	vec2 sum = vec2(0);
	if (LAST == 0 || k < outLength) {
		uint q = k % stride, u = k / stride % radix, p = k / stride / radix, m = points / radix / stride;
		uint at = stride * p * u, step = points / radix * u;
		for (uint t = 0; t < radix; t++) {
			vec2 a = load(line, q + stride * (p + m * t)), w = roots[at];
			sum += vec2(a.x * w.x - a.y * w.y, a.x * w.y + a.y * w.x);
			at += step;
			if (at >= points) at -= points;
		}
	}
	if (LAST == 0) {
		y[2 * i] = sum.x;
		y[2 * i + 1] = sum.y;
		return;
	}
	sum *= scale * twice(TWICE_OUT, k);
	line += first;
	uint to = ((line / after * outAxis + k) * after + line % after) * outParts;
	y[to] = sum.x;
	if (outParts == 2) y[to + 1] = sum.y;
}
