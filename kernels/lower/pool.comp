// Pools of [images, in…] to [images, out…], with three spatial axes. Output o of an
// axis sees inputs o·stride + k·dilation − pad for taps k.
//
// RULE 0: the greatest of a window. 1: the mean. An invocation owns an output. 2: the
// gradient of the greatest, from dy and x: each window's goes to its first greatest
// element. 3: the gradient of the mean. An invocation owns an input.
//
// With TAPS, RULE 4: the tap of a window's first greatest element, 255 for none;
// 5: the gradient of the greatest, from dy and those. 6: the greatest, and where it
// is, counted from the image's beginning or from the first's.
#version 450
#ifdef TAPS
#extension GL_EXT_shader_8bit_storage : require
#endif

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint RULE = 0;
layout(constant_id = 1) const uint PADDED = 0; // a mean counts the padding; RULE 6: places count from the first image

layout(push_constant) uniform Push {
	int n;
	int si[3], so[3], sk[3]; // sizes of in, out, kernel
	int stride[3], dilation[3], pad[3], end[3]; // end: where the padding behind the input ends
};

layout(binding = 0) buffer Z { float z[]; };          // y; dx
layout(binding = 1) readonly buffer A { float a[]; }; // x; dy
layout(binding = 2) readonly buffer B { float b[]; }; // RULES 2, 4 and 6: x
#ifdef TAPS
layout(binding = 3) buffer Taps { uint8_t taps[]; };
layout(binding = 3) buffer Places { uvec2 places[]; };
#endif

int from(int axis, int o, int k) { return o * stride[axis] + k * dilation[axis] - pad[axis]; }

// share is how much an element counts in the window of an output.
float share(int o[3]) {
	int count = 1;
	for (int axis = 0; axis < 3; axis++) {
		int seen = 0;
		for (int k = 0; k < sk[axis]; k++) {
			int at = from(axis, o[axis], k);
			if (PADDED != 0 ? at < end[axis] : at >= 0 && at < si[axis]) seen++;
		}
		count *= seen;
	}
	return 1 / float(count);
}

float most; // of a window
int tap;    // of that

// first is the offset of the first greatest element of a window in b, −1 if it
// sees none.
int first(int image, int o[3]) {
	int best = -1;
	most = uintBitsToFloat(0xff800000);
	tap = 255;
	for (int kz = 0; kz < sk[0]; kz++) {
		int iz = from(0, o[0], kz);
		if (iz < 0 || iz >= si[0]) continue;
		for (int ky = 0; ky < sk[1]; ky++) {
			int iy = from(1, o[1], ky);
			if (iy < 0 || iy >= si[1]) continue;
			for (int kx = 0; kx < sk[2]; kx++) {
				int ix = from(2, o[2], kx);
				if (ix < 0 || ix >= si[2]) continue;
				int at = (iz * si[1] + iy) * si[2] + ix;
				float v = b[image + at];
				if (best < 0 || v > most || isnan(v) && !isnan(most)) {
					best = at;
					most = v;
					tap = (kz * sk[1] + ky) * sk[2] + kx;
				}
			}
		}
	}
	return best;
}

void main() {
	int ins = si[0] * si[1] * si[2], outs = so[0] * so[1] * so[2];
	int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex);
	if (RULE < 2 || RULE == 4 || RULE == 6) {
		if (i >= n * outs) return;
		int p = i % outs, image = i / outs * ins;
		int o[3] = int[3](p / so[2] / so[1], p / so[2] % so[1], p % so[2]);
#ifdef TAPS
		int best = first(image, o);
		if (RULE == 4) {
			taps[i] = uint8_t(tap);
			return;
		}
		z[i] = most;
		if (PADDED != 0) best += image;
		places[i] = uvec2(best, best < 0 ? 0xffffffffu : 0);
		return;
#endif
		float acc = RULE == 0 ? uintBitsToFloat(0xff800000) : 0;
		for (int kz = 0; kz < sk[0]; kz++) {
			int iz = from(0, o[0], kz);
			if (iz < 0 || iz >= si[0]) continue;
			for (int ky = 0; ky < sk[1]; ky++) {
				int iy = from(1, o[1], ky);
				if (iy < 0 || iy >= si[1]) continue;
				for (int kx = 0; kx < sk[2]; kx++) {
					int ix = from(2, o[2], kx);
					if (ix < 0 || ix >= si[2]) continue;
					float v = a[image + (iz * si[1] + iy) * si[2] + ix];
					if (RULE == 1) acc += v;
					else if (v > acc || isnan(v)) acc = v;
				}
			}
		}
		z[i] = RULE == 1 ? acc * share(o) : acc;
		return;
	}
	if (i >= n * ins) return;
	int p = i % ins, image = i / ins;
	int at[3] = int[3](p / si[2] / si[1], p / si[2] % si[1], p % si[2]);
	float sum = 0;
	for (int kz = sk[0] - 1; kz >= 0; kz--) {
		int oz = at[0] + pad[0] - kz * dilation[0];
		if (oz < 0 || oz % stride[0] != 0 || oz / stride[0] >= so[0]) continue;
		for (int ky = sk[1] - 1; ky >= 0; ky--) {
			int oy = at[1] + pad[1] - ky * dilation[1];
			if (oy < 0 || oy % stride[1] != 0 || oy / stride[1] >= so[1]) continue;
			for (int kx = sk[2] - 1; kx >= 0; kx--) {
				int ox = at[2] + pad[2] - kx * dilation[2];
				if (ox < 0 || ox % stride[2] != 0 || ox / stride[2] >= so[2]) continue;
				int o[3] = int[3](oz / stride[0], oy / stride[1], ox / stride[2]);
				float d = a[image * outs + (o[0] * so[1] + o[1]) * so[2] + o[2]];
#ifdef TAPS
				if (int(taps[(image * outs) + (o[0] * so[1] + o[1]) * so[2] + o[2]]) == (kz * sk[1] + ky) * sk[2] + kx) sum += d;
				continue;
#endif
				if (RULE == 3) sum += d * share(o);
				else if (first(image * ins, o) == p) sum += d;
			}
		}
	}
	z[i] = sum;
}
