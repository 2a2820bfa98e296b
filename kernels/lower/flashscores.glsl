// What kernels of attention by cooperative matrices are told, and how they make a score of a sum.
layout(push_constant) uniform Push {
	uint first;
	uint queries, keys, width, outs;
	uint share;
	uint batch[2];
	uint strides[5];
	int left, right;
	float fill, scale;
};


bool sees(uint query, uint key) {
	int ahead = int(key) - int(query);
	return !(left >= 0 && ahead < -left || right >= 0 && ahead > right);
}

float scored(float s, uint z, uint query, uint key) {
	s *= scale;
	if (BIAS != 0) s += bias[z / batch[1] / batch[0] * strides[0] + z / batch[1] % batch[0] * strides[1] + z % batch[1] * strides[2] + query * strides[3] + key * strides[4]];
	// Where a query sees no key, all count alike, whatever is filled in.
	if (WINDOW != 0 && !sees(query, key)) s = left >= 0 && int(query) - left >= int(keys) ? 0 : fill;
	return s;
}
