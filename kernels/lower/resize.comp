// Another size of up to four axes. An output place lies at α·o + β among the inputs,
// both numbers of 32 bits and as many behind the point; it is a sum of the inputs
// around it, those beyond an end as the end's. BACK: the gradient, an invocation
// owns an input place, and goes over the outputs that have taken from it in order.
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint MODE = 0;    // 0 nearest, 1 linear, 2 cubic
layout(constant_id = 1) const uint RESIZED = 0; // bit d: axis d is; others stay as they are
layout(constant_id = 2) const uint BACK = 0;

layout(push_constant) uniform Push {
	uint n;
	float curve; // of cubic
	uint ins[4], outs[4];
	int stepWhole[4];
	uint stepPart[4];
	int firstWhole[4];
	uint firstPart[4];
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };

const int TAPS = MODE == 0 ? 1 : MODE == 1 ? 2 : 4;

// tap is the input that is tap k of output o of axis d, and its weight.
float tap(uint d, uint o, int k, out uint at) {
	if ((RESIZED >> d & 1) == 0) {
		at = o;
		return 1;
	}
	uint high, low, carry;
	umulExtended(stepPart[d], o, high, low);
	uint part = uaddCarry(low, firstPart[d], carry);
	int place = firstWhole[d] + stepWhole[d] * int(o) + int(high + carry);
	at = uint(clamp(place + (MODE == 2 ? k - 1 : k), 0, int(ins[d]) - 1));
	float ratio = float(part) * 2.32830644e-10;
	if (MODE == 0) return 1;
	if (MODE == 1) return k == 0 ? 1 - ratio : ratio;
	float s = abs(float(k - 1) - ratio);
	return s <= 1 ? ((curve + 2) * s - (curve + 3)) * s * s + 1 : ((curve * s - 5 * curve) * s + 8 * curve) * s - 4 * curve;
}

int taps(uint d) { return (RESIZED >> d & 1) == 0 ? 1 : TAPS; }

// share is the weight that input i has in output o.
float share(uint d, uint o, uint i) {
	float sum = 0;
	for (int k = 0; k < taps(d); k++) {
		uint at;
		float w = tap(d, o, k, at);
		if (at == i) sum += w;
	}
	return sum;
}

// takers are the outputs that may have taken from input i.
void takers(uint d, uint i, out uint from, out uint to) {
	from = 0;
	to = outs[d];
	if ((RESIZED >> d & 1) == 0) {
		from = i;
		to = i + 1;
		return;
	}
	float step = float(stepWhole[d]) + float(stepPart[d]) * 2.32830644e-10;
	float first = float(firstWhole[d]) + float(firstPart[d]) * 2.32830644e-10;
	if (step < 1e-4) return;
	if (i > 0) from = uint(clamp(floor((float(i) - 3 - first) / step) - 1, 0, float(to)));
	if (i + 1 < ins[d]) to = uint(clamp(ceil((float(i) + 3 - first) / step) + 2, 0, float(to)));
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex, rest = i;
	if (i >= n) return;
	uint p[4];
	[[unroll]] for (int d = 3; d >= 0; d--) {
		uint size = BACK != 0 ? ins[d] : outs[d];
		p[d] = rest % size;
		rest /= size;
	}
	float sum = 0;
	if (BACK != 0) {
		uint from[4], to[4];
		[[unroll]] for (int d = 0; d < 4; d++) takers(d, p[d], from[d], to[d]);
		for (uint a = from[0]; a < to[0]; a++) {
			float wa = share(0, a, p[0]);
			for (uint b = from[1]; b < to[1] && wa != 0; b++) {
				float wb = wa * share(1, b, p[1]);
				for (uint c = from[2]; c < to[2] && wb != 0; c++) {
					float wc = wb * share(2, c, p[2]);
					for (uint d = from[3]; d < to[3] && wc != 0; d++)
						sum += wc * share(3, d, p[3]) * x[((a * outs[1] + b) * outs[2] + c) * outs[3] + d];
				}
			}
		}
		y[i] = sum;
		return;
	}
	for (int a = 0; a < taps(0); a++) {
		uint pa;
		float wa = tap(0, p[0], a, pa);
		for (int b = 0; b < taps(1); b++) {
			uint pb;
			float wb = wa * tap(1, p[1], b, pb);
			for (int c = 0; c < taps(2); c++) {
				uint pc;
				float wc = wb * tap(2, p[2], c, pc);
				for (int d = 0; d < taps(3); d++) {
					uint pd;
					float wd = wc * tap(3, p[3], d, pd);
					sum += wd * x[((pa * ins[1] + pb) * ins[2] + pc) * ins[3] + pd];
				}
			}
		}
	}
	y[i] = sum;
}
