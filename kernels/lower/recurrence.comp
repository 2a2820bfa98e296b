// The steps of a recurrent layer, one direction, and the way back: gates stand side
// by side in Z, R and the bias. A group owns a row of the batch and takes it
// through all its steps; its invocations share out the gates and states.
//
// Of each step of a row, work keeps the gates' arguments, the state before it, and
// two more of that size, a and b: an LSTM's cell state before and after; what a
// GRU's new gate was made of, and its reset gate. On the way back the arguments
// become their gradients. Behind all rows are three states of each: the gradients
// by the state and by the cell's state, and what a step adds up.
//
// PASS 0: forward. 1: forward, then back. 2: an invocation owns an element of R, and
// adds up its gradient over rows and steps, in order; those of column 0 do so for
// the bias and the peepholes too.
#version 450

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 64;
layout(constant_id = 1) const uint PASS = 0;
layout(constant_id = 2) const uint GATES = 1; // 1 a plain layer, 3 a GRU, 4 an LSTM
layout(constant_id = 3) const uint REVERSE = 0;
layout(constant_id = 4) const uint LINEAR = 0; // GRU: the reset gate stands behind the product
layout(constant_id = 5) const uint FORGET = 0; // LSTM: the forget gate is what the input gate leaves
layout(constant_id = 6) const uint LENGTHS = 0; // words of one; 0: rows take all steps
layout(constant_id = 7) const uint GIVEN = 0; // bits: bias, h0, c0, peepholes, dy, dh, dc
layout(constant_id = 8) const uint WANTED = 0; // bits: y, h, c; back dz, dh0, dc0; weights dR, dbias, dP
layout(constant_id = 9) const uint FIRST = 0; // kinds of the functions
layout(constant_id = 10) const uint SECOND = 0;
layout(constant_id = 11) const uint THIRD = 0;

layout(push_constant) uniform Push {
	uint seq, batch, hidden;
	float clip;
	float alpha[3], beta[3];
};

layout(binding = 0) buffer Y { float y[]; };   // y; dz; dR
layout(binding = 1) buffer YH { float yh[]; }; // last state; dh0; dbias
layout(binding = 2) buffer YC { float yc[]; }; // last cell state; dc0; dP
layout(binding = 3) buffer Work { float work[]; };
layout(binding = 4) readonly buffer Z { float z[]; };
layout(binding = 5) readonly buffer R { float r[]; };
layout(binding = 6) readonly buffer Bias { float bias[]; };
layout(binding = 7) readonly buffer Lengths { uint lengths[]; };
layout(binding = 8) readonly buffer H0 { float h0[]; };
layout(binding = 9) readonly buffer C0 { float c0[]; };
layout(binding = 10) readonly buffer P { float peep[]; };
layout(binding = 11) readonly buffer DY { float dy[]; };
layout(binding = 12) readonly buffer DH { float dh[]; };
layout(binding = 13) readonly buffer DC { float dc[]; };

bool given(uint bit) { return (GIVEN >> bit & 1) != 0; }
bool wanted(uint bit) { return (WANTED >> bit & 1) != 0; }

float tanhOf(float x) {
	float s = x * x;
	if (s < 0.390625) return x + x * s * ((((-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2) * s + 1.33314422036e-1) * s - 3.33332819422e-1);
	return 1 - 2 / (exp(2 * clamp(x, -15, 15)) + 1) + (x - x);
}

float sigmoidOf(float x) { return 1 / (1 + exp(-x)); }

float plain(uint kind, uint k, float x) {
	float a = alpha[k], b = beta[k];
	switch (kind) {
	case 0: return max(x, 0);
	case 1: return tanhOf(x);
	case 2: return sigmoidOf(x);
	case 3: return a * x + b;
	case 4: return x >= 0 ? x : a * x;
	case 5: return x > a ? x : 0;
	case 6: return a * tanhOf(b * x);
	case 7: return clamp(a * x + b, 0, 1);
	case 8: return x >= 0 ? x : a * (exp(x) - 1);
	case 9: return x / (1 + abs(x));
	}
	return max(x, 0) + log(1 + exp(-abs(x)));
}

float plainSlope(uint kind, uint k, float x, float v) {
	float a = alpha[k], b = beta[k], t;
	switch (kind) {
	case 0: return x > 0 ? 1 : 0;
	case 1: return 1 - v * v;
	case 2: return v * (1 - v);
	case 3: return a;
	case 4: return x >= 0 ? 1 : a;
	case 5: return x > a ? 1 : 0;
	case 6: t = tanhOf(b * x); return a * b * (1 - t * t);
	case 7: return a * x + b > 0 && a * x + b < 1 ? a : 0;
	case 8: return x >= 0 ? 1 : v + a;
	case 9: t = 1 + abs(x); return 1 / (t * t);
	}
	return sigmoidOf(x);
}

uint kindOf(uint k) { return k == 0 ? FIRST : k == 1 ? SECOND : THIRD; }
float value(uint k, float x) { return plain(kindOf(k), k, clip > 0 ? clamp(x, -clip, clip) : x); }
float slope(uint k, float x, float v) { return clip > 0 && (x <= -clip || x >= clip) ? 0 : plainSlope(kindOf(k), k, x, v); }

uint row, lane, gates;

uint steps(uint of) { return LENGTHS == 0 ? seq : min(lengths[of * LENGTHS], seq); }
uint time(uint k) { return REVERSE != 0 ? steps(row) - 1 - k : k; }
uint kept(uint of, uint k) { return (of * seq + k) * (gates + 3 * hidden); }
float peephole(uint gate, uint j) { return given(3) ? peep[gate * hidden + j] : 0; }

// product is R's row g times a state, and its bias.
float product(uint g, uint state) {
	float sum = given(0) ? bias[g] : 0;
	for (uint k = 0; k < hidden; k++) sum += r[g * hidden + k] * work[state + k];
	return sum;
}

// back is R's column j times rows lo to hi of weights.
float back(uint lo, uint hi, uint weights, uint j) {
	float sum = 0;
	for (uint g = lo; g < hi; g++) sum += work[weights + g - lo] * r[g * hidden + j];
	return sum;
}

void meet() {
	memoryBarrierBuffer();
	barrier();
}

void forward() {
	uint n = steps(row);
	for (uint k = 0; k <= n; k++) {
		// The states that the step before has left; behind the last step they are
		// the results.
		for (uint j = lane; j < hidden; j += LOCAL) {
			float h = given(1) ? h0[row * hidden + j] : 0, c = given(2) ? c0[row * hidden + j] : 0;
			if (k > 0) {
				uint at = kept(row, k - 1), b = at + gates + 2 * hidden;
				float zj = work[at + j];
				if (GATES == 1) h = value(0, zj);
				else if (GATES == 3) {
					float s = value(0, zj);
					h = (1 - s) * value(1, work[at + 2 * hidden + j]) + s * work[at + gates + j];
				} else {
					c = work[b + j];
					h = value(0, work[at + hidden + j]) * plain(THIRD, 2, c);
				}
				if (PASS == 0 && wanted(0)) y[(time(k - 1) * batch + row) * hidden + j] = h;
			}
			if (k < n) {
				work[kept(row, k) + gates + j] = h;
				work[kept(row, k) + gates + hidden + j] = c;
			} else if (PASS == 0) {
				if (wanted(1)) yh[row * hidden + j] = h;
				if (wanted(2)) yc[row * hidden + j] = c;
			}
		}
		if (k == n) break;
		meet();
		uint at = kept(row, k), h = at + gates, a = h + hidden, b = a + hidden, first = (time(k) * batch + row) * gates;
		for (uint g = lane; g < gates; g += LOCAL) {
			float v = z[first + g];
			if (GATES != 3 || g < 2 * hidden) v += product(g, h);
			work[at + g] = v;
		}
		if (GATES == 3 && LINEAR != 0)
			for (uint j = lane; j < hidden; j += LOCAL) work[a + j] = product(2 * hidden + j, h);
		meet();
		for (uint j = lane; j < hidden && GATES == 3; j += LOCAL) {
			float s = value(0, work[at + hidden + j]);
			work[b + j] = s;
			if (LINEAR != 0) work[at + 2 * hidden + j] += s * work[a + j];
			else work[a + j] = s * work[h + j];
		}
		if (GATES == 3 && LINEAR == 0) {
			meet();
			for (uint j = lane; j < hidden; j += LOCAL) work[at + 2 * hidden + j] += product(2 * hidden + j, a);
		}
		for (uint j = lane; j < hidden && GATES == 4; j += LOCAL) {
			float c = work[a + j];
			float zi = work[at + j] + peephole(0, j) * c, zf = work[at + 2 * hidden + j] + peephole(2, j) * c;
			work[at + j] = zi;
			work[at + 2 * hidden + j] = zf;
			float s = value(0, zi), keep = FORGET != 0 ? 1 - s : value(0, zf);
			c = keep * c + s * value(1, work[at + 3 * hidden + j]);
			work[b + j] = c;
			work[at + hidden + j] += peephole(1, j) * c;
		}
	}
}

void backward() {
	uint dhs = batch * seq * (gates + 3 * hidden) + row * 3 * hidden, dcs = dhs + hidden, next = dcs + hidden, n = steps(row);
	for (uint j = lane; j < hidden; j += LOCAL) {
		work[dhs + j] = given(5) ? dh[row * hidden + j] : 0;
		work[dcs + j] = given(6) ? dc[row * hidden + j] : 0;
	}
	for (uint k = n; k-- > 0;) {
		uint at = kept(row, k), h = at + gates, a = h + hidden, b = a + hidden, t = time(k) * batch + row;
		for (uint j = lane; j < hidden; j += LOCAL) {
			float d = work[dhs + j];
			if (given(4)) d += dy[t * hidden + j];
			work[next + j] = 0;
			float zj = work[at + j];
			if (GATES == 1) work[at + j] = d * slope(0, zj, value(0, zj));
			else if (GATES == 3) {
				float zn = work[at + 2 * hidden + j], zr = work[at + hidden + j], s = value(0, zj), fresh = value(1, zn);
				work[next + j] = d * s;
				work[at + j] = d * (work[h + j] - fresh) * slope(0, zj, s);
				float dn = d * (1 - s) * slope(1, zn, fresh);
				work[at + 2 * hidden + j] = dn;
				if (LINEAR != 0) {
					work[at + hidden + j] = dn * work[a + j] * slope(0, zr, work[b + j]);
					work[a + j] = dn * work[b + j];
				}
			} else {
				float zo = work[at + hidden + j], zf = work[at + 2 * hidden + j], zc = work[at + 3 * hidden + j];
				float in_ = value(0, zj), out_ = value(0, zo), fresh = value(1, zc), keep = FORGET != 0 ? 1 - in_ : value(0, zf);
				float c = work[b + j], shown = plain(THIRD, 2, c), o = d * shown * slope(0, zo, out_);
				float g = work[dcs + j] + d * out_ * plainSlope(THIRD, 2, c, shown) + o * peephole(1, j);
				float i = g * fresh, f = g * work[a + j];
				if (FORGET != 0) {
					i -= f;
					f = 0;
				}
				i *= slope(0, zj, in_);
				f *= slope(0, zf, keep);
				work[dcs + j] = g * keep + i * peephole(0, j) + f * peephole(2, j);
				work[at + j] = i;
				work[at + hidden + j] = o;
				work[at + 2 * hidden + j] = f;
				work[at + 3 * hidden + j] = g * in_ * slope(1, zc, fresh);
			}
		}
		meet();
		if (GATES == 3 && LINEAR == 0) {
			for (uint j = lane; j < hidden; j += LOCAL) {
				float into = back(2 * hidden, 3 * hidden, at + 2 * hidden, j), s = work[b + j];
				work[next + j] += into * s;
				work[at + hidden + j] = into * work[h + j] * slope(0, work[at + hidden + j], s);
			}
			meet();
		}
		uint plainly = GATES == 3 ? 2 * hidden : gates;
		for (uint j = lane; j < hidden; j += LOCAL) {
			float d = work[next + j] + back(0, plainly, at, j);
			if (GATES == 3 && LINEAR != 0) d += back(2 * hidden, 3 * hidden, a, j);
			work[dhs + j] = d;
		}
		for (uint g = lane; g < gates && wanted(0); g += LOCAL) y[t * gates + g] = work[at + g];
	}
	for (uint j = lane; j < hidden; j += LOCAL) {
		if (wanted(1)) yh[row * hidden + j] = work[dhs + j];
		if (wanted(2)) yc[row * hidden + j] = work[dcs + j];
	}
}

void weights(uint i) {
	uint g = i / hidden, j = i % hidden;
	float sum = 0, sumBias = 0, sumPeep = 0;
	for (uint of = 0; of < batch; of++)
		for (uint k = 0; k < steps(of); k++) {
			uint at = kept(of, k), h = at + gates, a = h + hidden, from = h;
			float d = work[at + g];
			if (GATES == 3 && g >= 2 * hidden) {
				if (LINEAR != 0) d = work[a + g - 2 * hidden];
				else from = a;
			}
			sum += d * work[from + j];
			sumBias += d;
			if (GATES == 4 && g < 3 * hidden) sumPeep += d * work[(g / hidden == 1 ? a + hidden : a) + g % hidden];
		}
	if (wanted(0)) y[i] = sum;
	if (j == 0) {
		if (wanted(1)) yh[g] = sumBias;
		if (wanted(2) && g < 3 * hidden) yc[g] = sumPeep;
	}
}

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	lane = gl_LocalInvocationIndex;
	gates = GATES * hidden;
	if (PASS == 2) {
		if (group * LOCAL + lane < gates * hidden) weights(group * LOCAL + lane);
		return;
	}
	row = group;
	if (row >= batch) return;
	// What a row has not is zero.
	uint width = PASS == 0 ? hidden : gates;
	if (wanted(0))
		for (uint t = steps(row); t < seq; t++)
			for (uint j = lane; j < width; j += LOCAL) y[(t * batch + row) * width + j] = 0;
	forward();
	if (PASS == 1) {
		meet();
		backward();
	}
}
