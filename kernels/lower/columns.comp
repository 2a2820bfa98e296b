// Columns of images: element (tap, place) of an image's columns is the element that
// the window at the place sees by the tap, 0 in the padding. There are three spatial
// axes.
//
// SUM 0: an invocation owns an element of the columns, which it takes from an image.
// 1: an invocation owns an element of an image, the sum of those of its columns.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint SUM = 0;

layout(push_constant) uniform Push {
	int n, firstY, firstX; // images, and where they begin
	int si[3], so[3], sk[3]; // sizes of an image, places of the window, the window
	int stride[3], dilation[3], pad[3];
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };

void main() {
	int ins = si[0] * si[1] * si[2], outs = so[0] * so[1] * so[2], taps = sk[0] * sk[1] * sk[2];
	int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex);
	if (SUM == 0) {
		if (i >= n * taps * outs) return;
		int o = i % outs, tap = i / outs % taps, image = i / outs / taps;
		int z = o / so[2] / so[1] * stride[0] + tap / sk[2] / sk[1] * dilation[0] - pad[0];
		int v = o / so[2] % so[1] * stride[1] + tap / sk[2] % sk[1] * dilation[1] - pad[1];
		int u = o % so[2] * stride[2] + tap % sk[2] * dilation[2] - pad[2];
		bool inside = z >= 0 && z < si[0] && v >= 0 && v < si[1] && u >= 0 && u < si[2];
		float got = x[inside ? firstX + ((image * si[0] + z) * si[1] + v) * si[2] + u : 0];
		y[firstY + i] = inside ? got : 0;
		return;
	}
	if (i >= n * ins) return;
	int p = i % ins, image = i / ins;
	int at[3] = int[3](p / si[2] / si[1], p / si[2] % si[1], p % si[2]);
	float sum = 0;
	for (int kz = 0; kz < sk[0]; kz++) {
		int oz = at[0] + pad[0] - kz * dilation[0];
		if (oz < 0 || oz % stride[0] != 0 || oz / stride[0] >= so[0]) continue;
		for (int ky = 0; ky < sk[1]; ky++) {
			int oy = at[1] + pad[1] - ky * dilation[1];
			if (oy < 0 || oy % stride[1] != 0 || oy / stride[1] >= so[1]) continue;
			for (int kx = 0; kx < sk[2]; kx++) {
				int ox = at[2] + pad[2] - kx * dilation[2];
				if (ox < 0 || ox % stride[2] != 0 || ox / stride[2] >= so[2]) continue;
				int tap = (kz * sk[1] + ky) * sk[2] + kx;
				sum += x[firstX + (image * taps + tap) * outs + (oz / stride[0] * so[1] + oy / stride[1]) * so[2] + ox / stride[2]];
			}
		}
	}
	y[firstY + i] = sum;
}
