// Where the elements of an image lie that a convolution, as a product, multiplies: B's element (p, j) is the image's at the
// place that p and j name together, one a tap (channel and position in the kernel), the other a place (sample and position).
layout(constant_id = 2) const uint TAPS = 1;   // terms are taps and columns places, not the reverse
layout(constant_id = 3) const uint INSIDE = 0; // no tap of a place is outside of the image
layout(constant_id = 4) const uint KZ = 1;     // taps of the axes
layout(constant_id = 5) const uint KY = 1;
layout(constant_id = 6) const uint KX = 1;
layout(constant_id = 7) const int TZ = 1; // from a tap to the next, in the image
layout(constant_id = 8) const int TY = 1;
layout(constant_id = 9) const int TX = 1;
layout(constant_id = 10) const int PZ = 1; // from a place to the next, in the image
layout(constant_id = 11) const int PY = 1;
layout(constant_id = 12) const int PX = 1;
layout(constant_id = 13) const uint AZ = 1; // from a tap to the next, in A
layout(constant_id = 14) const uint AY = 1;
layout(constant_id = 15) const uint AX = 1;

layout(push_constant) uniform Push {
	uint m, n, k, part;       // part: terms of a group, k if they are not shared
	uint ai, ac;              // A: from a row to the next, from a channel or sample to the next
	uint fromA, fromB, fromY; // where strides count from
	uint groupA, groupB, groupY;
	uint size[3], places[3];  // of the image, and of a sample's places
	uint inverse[3];          // of places, for division
	uint shift[3];            // of the first tap of the first place, in the image
	uint image;               // from an image to the next
	uint ldy;                 // from a row of Y to the next
	uint ys, yz, yy, yx;      // from a sample to the next, and along the axes
	uint partY;               // from the sums of some terms to the next
	uint fromC;
};

// Quotients of less than 2³¹ by a number that is the same for all.
uint divided(uint i, const int axis) {
	uint high, low;
	umulExtended(i, inverse[axis], high, low);
	return places[axis] == 1 ? i : high >> findMSB(places[axis] - 1);
}

uint samples(uint i, out uvec3 at) {
	uint rows = divided(i, 2), slices = divided(rows, 1), s = divided(slices, 0);
	at = uvec3(slices - s * places[0], rows - slices * places[1], i - rows * places[2]);
	return s;
}

uint linear(ivec3 at) { return (uint(at.x) * size[1] + uint(at.y)) * size[2] + uint(at.z); }

uint place(uint i, out ivec3 at) {
	uvec3 where;
	uint s = samples(i, where);
	at = ivec3(where) * ivec3(PZ, PY, PX) + ivec3(shift[0], shift[1], shift[2]);
	return s * image + linear(at);
}

uint channels(uint i, out uvec3 tap) {
	uint rows = i / KX, slices = rows / KY, channel = slices / KZ;
	tap = uvec3(slices - channel * KZ, rows - slices * KY, i - rows * KX);
	return channel;
}

uint tap(uint i, out ivec3 at) {
	uvec3 which;
	uint channel = channels(i, which);
	at = ivec3(which) * ivec3(TZ, TY, TX);
	return channel * size[0] * size[1] * size[2] + linear(at);
}

uint termOfA(uint p) {
	uvec3 at;
	if (TAPS == 0) {
		uint s = samples(p, at);
		return s * ac + p - s * places[0] * places[1] * places[2];
	}
	uint channel = channels(p, at);
	return channel * ac + at.x * AZ + at.y * AY + at.z * AX;
}
