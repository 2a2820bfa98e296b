// Scores of attention, in place: a bias is added, and those of keys that a query
// does not see are FILL. An invocation owns one of a strip's: some queries of each matrix,
// all keys of each.
#version 450

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint BIAS = 0;

layout(push_constant) uniform Push {
	uint n, rows, keys;
	uint from;          // the first query
	uint batch[2];      // the inner dims of the batch
	uint strides[5];    // of the bias: under three dims of the batch, queries, keys
	int left, right;    // −1 is no limit
	float fill;
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };

void main() {
	uint at = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (at >= n) return;
	uint key = at % keys, query = from + at / keys % rows, z = at / keys / rows;
	int ahead = int(key) - int(query);
	float v = a[at];
	if (BIAS != 0)
		v += b[z / batch[1] / batch[0] * strides[0] + z / batch[1] % batch[0] * strides[1] + z % batch[1] * strides[2] + query * strides[3] + key * strides[4]];
	if (left >= 0 && ahead < -left || right >= 0 && ahead > right) v = fill;
	y[at] = v;
}
