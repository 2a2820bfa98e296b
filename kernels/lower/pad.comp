// Data that is repeated behind its ends, in up to four dims, outer first, and
// the gradient of that. BACK 0: an invocation owns an element of the larger. 1: it
// owns one of the smaller, and adds up all that was made of it, in one order.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint BACK = 0;
layout(constant_id = 1) const uint MODE = 0; // 0 edge, 1 reflect, 2 wrap

layout(push_constant) uniform Push {
	int n; // elements of y
	int little[4], large[4], before[4];
};

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };

// turned is i in a circle of n.
int turned(int i, int n) { return i >= 0 ? i % n : n - 1 - (-1 - i) % n; }

int source(int i, int n) {
	if (MODE == 0) return clamp(i, 0, n - 1);
	if (MODE == 2) return turned(i, n);
	if (n == 1) return 0;
	int at = turned(i, 2 * (n - 1));
	return min(at, 2 * (n - 1) - at);
}

// Where an element stands in the larger, by dim: one or two rows of places.
int first[8], count[8], gap[8];

void row(int k, int at, int period, int from, int to) {
	int far = from - at;
	gap[k] = period;
	first[k] = at + (far > 0 ? (far + period - 1) / period : -(-far / period)) * period;
	count[k] = first[k] < to ? (to - 1 - first[k]) / period + 1 : 0;
}

void find(int d, int i) {
	int n = little[d], from = -before[d], to = large[d] + from;
	count[2 * d + 1] = 0;
	if (MODE == 0) row(2 * d, i == 0 ? from : i, 1, i == 0 ? from : max(from, i), i == n - 1 ? to : min(to, i + 1));
	else if (MODE == 2) row(2 * d, i, n, from, to);
	else if (n == 1) row(2 * d, 0, 1, from, to);
	else {
		row(2 * d, i, 2 * (n - 1), from, to);
		if (i > 0 && i < n - 1) row(2 * d + 1, 2 * (n - 1) - i, 2 * (n - 1), from, to);
	}
}

int place(int d, int k) {
	int j = 2 * d;
	if (k >= count[j]) {
		k -= count[j];
		j++;
	}
	return first[j] + k * gap[j] + before[d];
}

void main() {
	int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex), at = i;
	if (i >= n) return;
	if (BACK == 0) {
		int from = 0, stride = 1;
		for (int d = 3; d >= 0; d--) {
			from += source(at % large[d] - before[d], little[d]) * stride;
			at /= large[d];
			stride *= little[d];
		}
		y[i] = x[from];
		return;
	}
	for (int d = 3; d >= 0; d--) {
		find(d, at % little[d]);
		at /= little[d];
	}
	float sum = 0;
	for (int a = 0; a < count[0] + count[1]; a++)
		for (int b = 0; b < count[2] + count[3]; b++)
			for (int c = 0; c < count[4] + count[5]; c++)
				for (int d = 0; d < count[6] + count[7]; d++)
					sum += x[((place(0, a) * large[1] + place(1, b)) * large[2] + place(2, c)) * large[3] + place(3, d)];
	y[i] = sum;
}
