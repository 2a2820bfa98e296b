// Attention that never stores its scores: Y = softmax(scale·Q·Kᵀ + bias)·V and the
// logarithm of what each query's exponentials add up to, by which the gradients compute
// the probabilities again.
//
// A lane has a column of the scores, or two, with what it needs of one side and what it
// adds up, all in registers. It goes along the rows of the other side, some at a time,
// whose elements are loaded by the lanes together and handed round by broadcast. So
// a score never leaves its lane, and no lane waits for others. STAGED: a group has as many
// columns as invocations, and they bring the rows to shared memory together, the next ones
// while they compute with the last: where that is fast, a load feeds four products and
// a broadcast one. The sums and their order are the same.
//
// FORWARD: columns are queries, rows are keys. The greatest score is of the keys so far;
// what was added up is brought down where there is a greater one. DOTS: a subgroup has a
// query: Σ dY·Y, which is what softmax's gradient needs of a whole row. QUERIES: dQ, as
// FORWARD goes. KEYS: dK and dV; columns are keys, rows are queries.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

#ifdef STAGED
layout(local_size_x_id = 9) in;
layout(constant_id = 9) const uint LOCAL = 128; // invocations of a group
#else
layout(local_size_x_id = 0) in;
#endif
layout(constant_id = 0) const uint LANES = 8;   // of a subgroup, and of a group
layout(constant_id = 1) const uint WIDE = 16;   // the width, and outs, in whole blocks of columns
layout(constant_id = 2) const uint OUTS = 16;
layout(constant_id = 3) const uint TRANS_K = 0; // element (j, d) of K is at d·keys + j, not j·width + d
layout(constant_id = 4) const uint BIAS = 0;
layout(constant_id = 5) const uint WINDOW = 0;  // a query sees from left to right of it
layout(constant_id = 6) const uint SKIPS = 0;   // other keys count for nothing
layout(constant_id = 7) const uint WHOLE = 0;   // these are whole: the width (1), outs (2), and rows are in steps (4)
layout(constant_id = 8) const uint SAFE = 0;    // what is no number is 0; its logarithm is infinite

layout(push_constant) uniform Push {
	uint first;       // of the groups before these
	uint queries, keys, width, outs;
	uint share;       // matrices of Q that see one of K and V
	uint batch[2];    // the inner dims of the batch
	uint strides[5];  // of the bias: under three dims of the batch, queries, keys
	int left, right;  // −1 is no limit
	float fill, scale;
};

layout(binding = 0) buffer Y { float y[]; }; // Y, dQ, dK; DOTS: the sums
layout(binding = 1) readonly buffer Q { float q[]; }; // DOTS: Y
layout(binding = 2) readonly buffer K { float k[]; };
layout(binding = 3) readonly buffer V { float v[]; };
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 5) readonly buffer DY { float dy[]; };
layout(binding = 6) buffer Lse { float lse[]; };
layout(binding = 7) readonly buffer Dots { float dots[]; };
layout(binding = 8) buffer DV { float dv[]; };

// What a function loads from or stores to.
const int ofY = 0, ofQ = 1, ofK = 2, ofV = 3, ofDY = 5, ofDV = 8;

#ifdef PAIRS
// Two floats at once: a driver that loads lane by lane loads half as often.
layout(binding = 0) buffer Y2 { uint64_t y2[]; };
layout(binding = 1) readonly buffer Q2 { uint64_t q2[]; };
layout(binding = 2) readonly buffer K2 { uint64_t k2[]; };
layout(binding = 3) readonly buffer V2 { uint64_t v2[]; };
layout(binding = 5) readonly buffer DY2 { uint64_t dy2[]; };
layout(binding = 8) buffer DV2 { uint64_t dv2[]; };
#define EACH_LANE 2
#define some vec2

some load(const int of, uint at) {
	at >>= 1;
	return uintBitsToFloat(unpack32(of == ofQ ? q2[at] : of == ofK ? k2[at] : of == ofV ? v2[at] : dy2[at]));
}

void put(const int of, uint at, some x) {
	if (of == ofY) y2[at >> 1] = pack64(floatBitsToUint(x));
	else dv2[at >> 1] = pack64(floatBitsToUint(x));
}

float broadcast(some x, int e) { return subgroupBroadcast((e & 1) == 0 ? x.x : x.y, e >> 1); }
#else
#define EACH_LANE 1
#define some float

some load(const int of, uint at) {
	if (of == ofQ) return q[at];
	if (of == ofK) return k[at];
	if (of == ofV) return v[at];
	return dy[at];
}

void put(const int of, uint at, some x) {
	if (of == ofY) y[at] = x;
	else dv[at] = x;
}

float broadcast(some x, int e) { return subgroupBroadcast(x, e); }
#endif

#ifdef STAGED
#define COLUMNS LOCAL
#define LANE gl_LocalInvocationIndex
#define shareOf vec4
#define OF(part, e) part[e]
#else
#define COLUMNS (EACH_LANE * LANES)
#define LANE gl_SubgroupInvocationID
#define shareOf some
#define OF(part, e) broadcast(part, e)
#endif
#define INFINITE uintBitsToFloat(0x7f800000)
#if ROWS == 8
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define TWO(f) f(0, 1) f(2, 3) f(4, 5) f(6, 7)
#else
#define EACH(f) f(0) f(1) f(2) f(3)
#define TWO(f) f(0, 1) f(2, 3)
#endif

uint column; // of the lane, the first

// Rows have names of their own, no place in an array that a driver keeps in memory:
// a row's part of a block, its scores, and what becomes of them.
#define DECLARE(r) shareOf part##r; some sum##r, block##r;
EACH(DECLARE)

#ifdef STAGED
shared vec4 stage[2][ROWS][(WIDE + OUTS) / 4]; // rows of K or Q, and behind each its row of V or dY
#define COMING ((ROWS * (WIDE + OUTS) + LOCAL - 1) / LOCAL)
float coming[COMING];
uint newest = 0;

// fetch loads the elements of rows that this invocation brings.
void fetch(const int of, uint first, const int ofOther, uint firstOther, uint count, uint row) {
	[[unroll]] for (int i = 0; i < COMING; i++) {
		uint e = i * LOCAL + gl_LocalInvocationIndex, r = e / (WIDE + OUTS), d = e % (WIDE + OUTS), j = row + r;
		coming[i] = 0;
		if (j >= count || r >= ROWS) continue;
		if (d < WIDE) {
			if (d < width) coming[i] = load(of, TRANS_K != 0 && of == ofK ? first + d * count + j : first + j * width + d);
		} else if (d - WIDE < outs) coming[i] = load(ofOther, firstOther + j * outs + d - WIDE);
	}
}

// bring stores them for all. Nobody reads what was stored before last.
void bring() {
	newest = 1 - newest;
	[[unroll]] for (int i = 0; i < COMING; i++) {
		uint e = i * LOCAL + gl_LocalInvocationIndex, r = e / (WIDE + OUTS), d = e % (WIDE + OUTS);
		if (r < ROWS) stage[newest][r][d / 4][d % 4] = coming[i];
	}
	barrier();
}
#endif

#ifndef STAGED
// loadParts loads a block of each of ROWS rows, of count, from row on; d is where it
// begins. What is beyond the end is multiplied by 0.
void loadParts(const int of, uint first, uint count, uint row, uint d, uint n, const bool whole) {
	uint mine = d + EACH_LANE * gl_SubgroupInvocationID;
	if (!whole) mine = min(mine, n - EACH_LANE);
#ifdef PAIRS
	if (TRANS_K != 0 && of == ofK) {
#define TURN(r, s) { \
			uint j = min(row + r, count - 2); \
			vec2 f = load(of, first + mine * count + j), g = load(of, first + (mine + 1) * count + j); \
			part##r = vec2(f.x, g.x); \
			part##s = vec2(f.y, g.y); \
		}
		TWO(TURN)
		return;
	}
#endif
#define LOAD(r) { \
		uint j = (WHOLE & 4) != 0 ? row + r : min(row + r, count - 1); \
		part##r = load(of, TRANS_K != 0 && of == ofK ? first + mine * count + j : first + j * n + mine); \
	}
	EACH(LOAD)
}
#endif

// own loads elements d and on of the lane's columns, of which there are count: one for
// each of them in x, and the next ones in y where they are loaded by pairs.
void own(const int of, uint first, uint count, uint d, uint n, out some x, out some y) {
	bool there = d < n;
	d = min(d, n - EACH_LANE);
	if (TRANS_K != 0 && of == ofK) {
		uint at = min(column, count - EACH_LANE);
		x = load(of, first + d * count + at);
		y = EACH_LANE == 2 ? load(of, first + (d + 1) * count + at) : x;
	} else {
#ifdef PAIRS
		vec2 f = load(of, first + min(column, count - 1) * n + d), g = load(of, first + min(column + 1, count - 1) * n + d);
		x = vec2(f.x, g.x);
		y = vec2(f.y, g.y);
#else
		x = y = load(of, first + min(column, count - 1) * n + d);
#endif
	}
	if (!there) x = y = some(0);
}

// store stores what own loads.
void store(const int of, uint first, uint count, uint d, uint n, const bool across, some x, some y) {
	if (d >= n) return;
#ifdef PAIRS
	if (across) {
		if (column >= count) return;
		put(of, first + d * count + column, x);
		put(of, first + (d + 1) * count + column, y);
	} else {
		if (column < count) put(of, first + column * n + d, vec2(x.x, y.x));
		if (column + 1 < count) put(of, first + (column + 1) * n + d, vec2(x.y, y.y));
	}
#else
	if (column < count) put(of, across ? first + d * count + column : first + column * n + d, x);
#endif
}

#define HOLD(of, first, count, n, size, to) { \
		some x, y; \
		[[dont_unroll]] for (int d = 0; d < size; d += EACH_LANE) { \
			own(of, first, count, d, n, x, y); \
			to[d] = x; \
			to[d + EACH_LANE - 1] = y; \
		} \
	}

#define STORE(of, first, count, n, across, size, from) \
	[[dont_unroll]] for (int d = 0; d < size; d += EACH_LANE) store(of, first, count, d, n, across, from[d], from[d + EACH_LANE - 1]);

// ALONG goes along all elements of ROWS rows: DO has each.
#ifdef STAGED
#define TAKE(r) part##r = stage[newest][r][from4 + p / 4];
#define ALONG(of, first, count, row, n, whole, size, DO) { \
		const uint from4 = of == ofV || of == ofDY ? WIDE / 4 : 0; \
		[[unroll]] for (int p = 0; p < size; p += 4) { \
			EACH(TAKE) \
			[[unroll]] for (int e = 0; e < 4; e++) { \
				DO \
			} \
		} \
	}
#define FETCH(of, first, ofOther, firstOther, count, row) fetch(of, first, ofOther, firstOther, count, row);
#define BRING(of, first, ofOther, firstOther, count, row, end) \
	bring(); \
	if (row + ROWS < end) fetch(of, first, ofOther, firstOther, count, row + ROWS);
#else
#define FETCH(of, first, ofOther, firstOther, count, row)
#define BRING(of, first, ofOther, firstOther, count, row, end)
#define ALONG(of, first, count, row, n, whole, size, DO) \
	[[unroll]] for (int p = 0; p < size; p += int(COLUMNS)) { \
		loadParts(of, first, count, row, p, n, whole); \
		[[unroll]] for (int e = 0; e < COLUMNS; e++) { \
			DO \
		} \
	}
#endif

#define AGAINST_ONE(r) sum##r += OF(part##r, e) * one[p + e];
#define AGAINST_TWO(r) sum##r += OF(part##r, e) * two[p + e];
#define TO_ONE(r) toOne[p + e] += OF(part##r, e) * block##r;
#define TO_TWO(r) toTwo[p + e] += OF(part##r, e) * block##r;
#define BEGIN(r) sum##r = some(0);

bool sees(uint query, uint key) {
	int ahead = int(key) - int(query);
	return !(left >= 0 && ahead < -left || right >= 0 && ahead > right);
}

float biased(uint z, uint query, uint key) {
	uint at = z / batch[1] / batch[0] * strides[0] + z / batch[1] % batch[0] * strides[1] + z % batch[1] * strides[2];
	return bias[at + min(query, queries - 1) * strides[3] + min(key, keys - 1) * strides[4]];
}

// scored makes a score of a sum and a bias.
float scored(float s, float b, uint query, uint key) {
	s *= scale;
	if (BIAS != 0) s += b;
	// Where a query sees no key, all count alike, whatever is filled in.
	if (WINDOW != 0 && !sees(query, key)) s = left >= 0 && int(query) - left >= int(keys) ? 0 : fill;
	return s;
}

// Both columns of a lane at once.
#ifdef PAIRS
#define QUERY_BIAS(z, key) vec2(biased(z, column, key), biased(z, column + 1, key))
#define KEY_BIAS(z, query) vec2(biased(z, query, column), biased(z, query, column + 1))
#define QUERY_SCORES(s, b, key) vec2(scored(s.x, b.x, column, key), scored(s.y, b.y, column + 1, key))
#define KEY_SCORES(s, b, query) vec2(scored(s.x, b.x, query, column), scored(s.y, b.y, query, column + 1))
#define QUERY_SEES(key) vec2(sees(column, key), sees(column + 1, key))
#define KEY_SEES(query) vec2(sees(query, column), sees(query, column + 1))
#else
#define QUERY_BIAS(z, key) biased(z, column, key)
#define KEY_BIAS(z, query) biased(z, query, column)
#define QUERY_SCORES(s, b, key) scored(s, b, column, key)
#define KEY_SCORES(s, b, query) scored(s, b, query, column)
#define QUERY_SEES(key) float(sees(column, key))
#define KEY_SEES(query) float(sees(query, column))
#endif

// A bias of −∞ hides all that a group would see next: nothing comes of it.
#define BEST(r) best = max(best, block##r);
#define PASS_HIDDEN \
	if (BIAS != 0) { \
		EACH(BIASES) \
		some best = some(-INFINITE); \
		EACH(BEST) \
		if (WINDOW == 0 && !subgroupAny(best != some(-INFINITE))) continue; \
	}

void main() {
	uint group = first + gl_WorkGroupID.x;
#ifdef DOTS
	float sum = 0;
	for (uint i = gl_SubgroupInvocationID; i < outs; i += LANES) sum += q[group * outs + i] * dy[group * outs + i];
	sum = subgroupAdd(sum);
	if (subgroupElect()) y[group] = sum;
#else
#ifdef KEYS
	uint each = keys;
#else
	uint each = queries;
#endif
	uint tiles = (each + COLUMNS - 1) / COLUMNS, mine = group / tiles, from = group % tiles * COLUMNS;
	column = from + EACH_LANE * LANE;
	const bool wholeWidth = (WHOLE & 1) != 0, wholeOuts = (WHOLE & 2) != 0;
#ifdef KEYS
	uint ofKeys = mine * keys * width, ofValues = mine * keys * outs;
	some one[WIDE], two[OUTS], toOne[WIDE], toTwo[OUTS];
	HOLD(ofK, ofKeys, keys, width, WIDE, one)
	HOLD(ofV, ofValues, keys, outs, OUTS, two)
	[[unroll]] for (int d = 0; d < WIDE; d++) toOne[d] = some(0);
	[[unroll]] for (int d = 0; d < OUTS; d++) toTwo[d] = some(0);
	uint begin = SKIPS != 0 && right >= 0 && from > uint(right) ? (from - right) / ROWS * ROWS : 0;
	uint end = SKIPS != 0 && left >= 0 ? min(queries, from + COLUMNS + left) : queries;
	for (uint z = mine * share; z < (mine + 1) * share; z++) {
		uint ofQueries = z * queries * width, ofResults = z * queries * outs;
		FETCH(ofQ, ofQueries, ofDY, ofResults, queries, begin)
		for (uint row = begin; row < end; row += ROWS) {
			BRING(ofQ, ofQueries, ofDY, ofResults, queries, row, end)
#define BIASES(r) block##r = KEY_BIAS(z, row + r);
			PASS_HIDDEN
			EACH(BEGIN)
			ALONG(ofQ, ofQueries, queries, row, width, wholeWidth, WIDE, EACH(AGAINST_ONE))
#define PROBABLE(r) block##r = row + r < queries ? exp(KEY_SCORES(sum##r, block##r, row + r) - lse[z * queries + min(row + r, queries - 1)]) : some(0);
			EACH(PROBABLE)
			EACH(BEGIN)
			ALONG(ofDY, ofResults, queries, row, outs, wholeOuts, OUTS, EACH(AGAINST_TWO) EACH(TO_TWO))
#define SLOPE(r) \
			block##r *= scale * (sum##r - dots[z * queries + min(row + r, queries - 1)]); \
			if (WINDOW != 0) block##r *= KEY_SEES(row + r);
			EACH(SLOPE)
			ALONG(ofQ, ofQueries, queries, row, width, wholeWidth, WIDE, EACH(TO_ONE))
		}
	}
	STORE(ofY, ofKeys, keys, width, TRANS_K != 0, WIDE, toOne)
	STORE(ofDV, ofValues, keys, outs, false, OUTS, toTwo)
#else
	uint z = mine, ofQueries = z * queries * width, ofResults = z * queries * outs;
	uint ofKeys = z / share * keys * width, ofValues = z / share * keys * outs;
	uint begin = SKIPS != 0 && left >= 0 && from > uint(left) ? (from - left) / ROWS * ROWS : 0;
	uint end = SKIPS != 0 && right >= 0 ? min(keys, from + COLUMNS + right) : keys;
#define BIASES(r) block##r = QUERY_BIAS(z, row + r);
	some one[WIDE];
	HOLD(ofQ, ofQueries, queries, width, WIDE, one)
#ifdef FORWARD
	some toTwo[OUTS];
	[[unroll]] for (int d = 0; d < OUTS; d++) toTwo[d] = some(0);
	some top = some(-INFINITE), total = some(0);
	FETCH(ofK, ofKeys, ofV, ofValues, keys, begin)
	for (uint row = begin; row < end; row += ROWS) {
		BRING(ofK, ofKeys, ofV, ofValues, keys, row, end)
		PASS_HIDDEN
		EACH(BEGIN)
		ALONG(ofK, ofKeys, keys, row, width, wholeWidth, WIDE, EACH(AGAINST_ONE))
		some now = top;
#define SCORE(r) \
		block##r = row + r < keys ? QUERY_SCORES(sum##r, block##r, row + r) : some(-INFINITE); \
		now = max(now, block##r);
		EACH(SCORE)
		// Where all are −∞ so far, they count from 0.
		some shift = max(now, -3e38);
		if (subgroupAny(now != top)) {
			some down = exp(top - shift);
			[[unroll]] for (int d = 0; d < OUTS; d++) toTwo[d] *= down;
			total *= down;
			top = now;
		}
#define EXPONENTIAL(r) block##r = exp(block##r - shift); total += block##r;
		EACH(EXPONENTIAL)
		ALONG(ofV, ofValues, keys, row, outs, wholeOuts, OUTS, EACH(TO_TWO))
	}
#ifdef PAIRS
	bvec2 lost = not(greaterThan(total, vec2(0)));
#else
	bool lost = !(total > 0);
#endif
	[[unroll]] for (int d = 0; d < OUTS; d++) toTwo[d] = SAFE != 0 ? mix(toTwo[d] / total, some(0), lost) : toTwo[d] / total;
	STORE(ofY, ofResults, queries, outs, false, OUTS, toTwo)
	some logs = top + log(total);
	if (SAFE != 0) logs = mix(logs, some(INFINITE), lost);
#ifdef PAIRS
	if (column < queries) lse[z * queries + column] = logs.x;
	if (column + 1 < queries) lse[z * queries + column + 1] = logs.y;
#else
	if (column < queries) lse[z * queries + column] = logs;
#endif
#else
	some two[OUTS], toOne[WIDE];
	HOLD(ofDY, ofResults, queries, outs, OUTS, two)
	[[unroll]] for (int d = 0; d < WIDE; d++) toOne[d] = some(0);
	uint i = z * queries + min(column, queries - 1);
#ifdef PAIRS
	uint j = z * queries + min(column + 1, queries - 1);
	vec2 logs = vec2(lse[i], lse[j]), less = vec2(dots[i], dots[j]);
#else
	float logs = lse[i], less = dots[i];
#endif
	FETCH(ofK, ofKeys, ofV, ofValues, keys, begin)
	for (uint row = begin; row < end; row += ROWS) {
		BRING(ofK, ofKeys, ofV, ofValues, keys, row, end)
		PASS_HIDDEN
		EACH(BEGIN)
		ALONG(ofK, ofKeys, keys, row, width, wholeWidth, WIDE, EACH(AGAINST_ONE))
#define PROBABLE(r) block##r = row + r < keys ? exp(QUERY_SCORES(sum##r, block##r, row + r) - logs) : some(0);
		EACH(PROBABLE)
		EACH(BEGIN)
		ALONG(ofV, ofValues, keys, row, outs, wholeOuts, OUTS, EACH(AGAINST_TWO))
#define SLOPE(r) \
		block##r *= scale * (sum##r - less); \
		if (WINDOW != 0) block##r *= QUERY_SEES(row + r);
		EACH(SLOPE)
		ALONG(ofK, ofKeys, keys, row, width, wholeWidth, WIDE, EACH(TO_ONE))
	}
	STORE(ofY, ofQueries, queries, width, false, WIDE, toOne)
#endif
#endif
#endif
}
