// The gradients of flash.comp, of factors that hold float16, by cooperative matrices: dQ (QUERIES), or dK and dV (KEYS).
// Each subgroup has M lines of one side, whose factors and sums stay in its registers, and goes along the rows of the
// other, which all bring to the group's memory together. Scores, slopes and sums are float32; the probabilities and slopes that
// are multiplied once more are rounded to float16 before.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

layout(local_size_x_id = 7) in;
layout(constant_id = 1) const uint WIDE = 16; // the width, and outs, in whole fragments
layout(constant_id = 2) const uint OUTS = 16;
layout(constant_id = 3) const uint BIAS = 0; // as flash.comp has them
layout(constant_id = 4) const uint WINDOW = 0;
layout(constant_id = 5) const uint SKIPS = 0;
layout(constant_id = 7) const uint LOCAL = 32;
layout(constant_id = 8) const uint M = 8; // of a fragment: rows,
layout(constant_id = 9) const uint N = 8; // columns
layout(constant_id = 10) const uint K = 8; // and terms
layout(constant_id = 11) const uint TRANS_K = 0;
layout(constant_id = 12) const uint SUBGROUPS = 4; // of a group

layout(binding = 0) buffer Y { float y[]; }; // dQ, dK
layout(binding = 1) readonly buffer Q { float q[]; };
layout(binding = 2) readonly buffer K_ { float k[]; };
layout(binding = 3) readonly buffer V { float v[]; };
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 5) readonly buffer DY { float dy[]; };
layout(binding = 6) buffer Lse { float lse[]; };
layout(binding = 7) readonly buffer Dots { float dots[]; };
layout(binding = 8) buffer DV { float dv[]; };

//flashscores.glsl

const uint ROWS = SUBGROUPS * M, STEP = 2 * N; // lines of a group, and rows of the other side at a time
const uint LINE = WIDE + 8, LINE_V = OUTS + 8, LINE_P = STEP + 8; // out of each other's banks
const uint OWN = ROWS * (LINE > LINE_V ? LINE : LINE_V), OTHER = STEP * (LINE + LINE_V);
shared float16_t stage[OWN > OTHER ? OWN : OTHER], sloped[ROWS * LINE_P];
shared float scores[ROWS * N], slopes[ROWS * N]; // each subgroup has its own lines of these
#ifdef KEYS
shared float16_t probable[ROWS * LINE_P];
#endif

#define FACTOR coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define OTHER_FACTOR coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define SUM coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

const int ofQ = 1, ofK = 2, ofV = 3, ofDY = 5;

float load(const int of, uint at) {
	if (of == ofQ) return q[at];
	if (of == ofK) return k[at];
	if (of == ofV) return v[at];
	return dy[at];
}

// bring takes lines of a matrix of count rows of n elements, from row on, to the group's memory, where they are size long.
void bring(const int of, uint first, uint count, uint row, uint lines, uint n, uint size, uint to) {
	for (uint e = gl_LocalInvocationIndex; e < lines * size; e += LOCAL) {
		uint r = TRANS_K != 0 && of == ofK ? e % lines : e / size, d = TRANS_K != 0 && of == ofK ? e / lines : e % size, i = row + r;
		stage[to + r * (size + 8) + d] = float16_t(i < count && d < n ? load(of, TRANS_K != 0 && of == ofK ? first + d * count + i : first + i * n + d) : 0);
	}
}

void main() {
	uint group = first + gl_WorkGroupID.x, lane = gl_SubgroupInvocationID, mine = gl_SubgroupID * M;
#ifdef KEYS
	const int ofOne = ofK, ofTwo = ofV, ofRow = ofQ, ofRowTwo = ofDY;
	uint own = keys, others = queries;
#else
	const int ofOne = ofQ, ofTwo = ofDY, ofRow = ofK, ofRowTwo = ofV;
	uint own = queries, others = keys;
#endif
	uint tiles = (own + ROWS - 1) / ROWS, matrix = group / tiles, from = group % tiles * ROWS;
	uint inOne = matrix * own * width, inTwo = matrix * own * outs;

	FACTOR one[WIDE / K], two[OUTS / K];
	bring(ofOne, inOne, own, from, ROWS, width, WIDE, 0);
	barrier();
	[[unroll]] for (uint d = 0; d < WIDE / K; d++) coopMatLoad(one[d], stage, mine * LINE + d * K, LINE, gl_CooperativeMatrixLayoutRowMajor);
	barrier();
	bring(ofTwo, inTwo, own, from, ROWS, outs, OUTS, 0);
	barrier();
	[[unroll]] for (uint d = 0; d < OUTS / K; d++) coopMatLoad(two[d], stage, mine * LINE_V + d * K, LINE_V, gl_CooperativeMatrixLayoutRowMajor);
	SUM toOne[WIDE / N];
	[[unroll]] for (uint d = 0; d < WIDE / N; d++) toOne[d] = SUM(0);
#ifdef KEYS
	SUM toTwo[OUTS / N];
	[[unroll]] for (uint d = 0; d < OUTS / N; d++) toTwo[d] = SUM(0);
	uint begin = SKIPS != 0 && right >= 0 && from > uint(right) ? (from - right) / STEP * STEP : 0;
	uint end = SKIPS != 0 && left >= 0 ? min(queries, from + ROWS + left) : queries;
	for (uint z = matrix * share; z < (matrix + 1) * share; z++) {
		uint inRow = z * queries * width, inRowTwo = z * queries * outs;
#else
	uint z = matrix, inRow = z / share * keys * width, inRowTwo = z / share * keys * outs;
	uint begin = SKIPS != 0 && left >= 0 && from > uint(left) ? (from - left) / STEP * STEP : 0;
	uint end = SKIPS != 0 && right >= 0 ? min(keys, from + ROWS + right) : keys;
	{
#endif
		for (uint row = begin; row < end; row += STEP) {
			barrier();
			bring(ofRow, inRow, others, row, STEP, width, WIDE, 0);
			bring(ofRowTwo, inRowTwo, others, row, STEP, outs, OUTS, STEP * LINE);
			barrier();
			for (uint n = 0; n < STEP; n += N) {
				SUM s = SUM(0), t = SUM(0);
				OTHER_FACTOR g;
				[[unroll]] for (uint d = 0; d < WIDE / K; d++) {
					coopMatLoad(g, stage, n * LINE + d * K, LINE, gl_CooperativeMatrixLayoutColumnMajor);
					s = coopMatMulAdd(one[d], g, s);
				}
				[[unroll]] for (uint d = 0; d < OUTS / K; d++) {
					coopMatLoad(g, stage, STEP * LINE + n * LINE_V + d * K, LINE_V, gl_CooperativeMatrixLayoutColumnMajor);
					t = coopMatMulAdd(two[d], g, t);
				}
				coopMatStore(s, scores, mine * N, N, gl_CooperativeMatrixLayoutRowMajor);
				coopMatStore(t, slopes, mine * N, N, gl_CooperativeMatrixLayoutRowMajor);
				subgroupBarrier();
				for (uint e = lane; e < M * N; e += gl_SubgroupSize) {
					uint line = mine + e / N, c = n + e % N, at = mine * N + e, i = min(from + line, own - 1), j = row + c;
#ifdef KEYS
					uint query = min(j, queries - 1), key = i;
#else
					uint query = i, key = min(j, keys - 1);
#endif
					float p = j < others ? exp(scored(scores[at], z, query, key) - lse[z * queries + query]) : 0;
					bool seen = WINDOW == 0 || sees(query, key);
					// Rows behind the last and keys that a query does not see have no slope, whatever the products are.
					sloped[line * LINE_P + c] = float16_t(j < others && seen ? p * (slopes[at] - dots[z * queries + query]) : 0);
#ifdef KEYS
					probable[line * LINE_P + c] = float16_t(p);
#endif
				}
				subgroupBarrier();
			}
			for (uint i = 0; i < STEP; i += K) {
				FACTOR f;
				OTHER_FACTOR g;
				coopMatLoad(f, sloped, mine * LINE_P + i, LINE_P, gl_CooperativeMatrixLayoutRowMajor);
				[[unroll]] for (uint d = 0; d < WIDE / N; d++) {
					coopMatLoad(g, stage, i * LINE + d * N, LINE, gl_CooperativeMatrixLayoutRowMajor);
					toOne[d] = coopMatMulAdd(f, g, toOne[d]);
				}
#ifdef KEYS
				coopMatLoad(f, probable, mine * LINE_P + i, LINE_P, gl_CooperativeMatrixLayoutRowMajor);
				[[unroll]] for (uint d = 0; d < OUTS / N; d++) {
					coopMatLoad(g, stage, STEP * LINE + i * LINE_V + d * N, LINE_V, gl_CooperativeMatrixLayoutRowMajor);
					toTwo[d] = coopMatMulAdd(f, g, toTwo[d]);
				}
#endif
			}
		}
	}
	[[unroll]] for (uint d = 0; d < WIDE / N; d++) {
		coopMatStore(toOne[d], scores, mine * N, N, gl_CooperativeMatrixLayoutRowMajor);
		subgroupBarrier();
		for (uint e = lane; e < M * N; e += gl_SubgroupSize) {
			uint i = from + mine + e / N, c = d * N + e % N;
			if (i >= own || c >= width) continue;
			y[TRANS_K != 0 && ofOne == ofK ? inOne + c * own + i : inOne + i * width + c] = scale * scores[mine * N + e];
		}
		subgroupBarrier();
	}
#ifdef KEYS
	[[unroll]] for (uint d = 0; d < OUTS / N; d++) {
		coopMatStore(toTwo[d], scores, mine * N, N, gl_CooperativeMatrixLayoutRowMajor);
		subgroupBarrier();
		for (uint e = lane; e < M * N; e += gl_SubgroupSize) {
			uint i = from + mine + e / N, c = d * N + e % N;
			if (i < own && c < outs) dv[inTwo + i * outs + c] = scores[mine * N + e];
		}
		subgroupBarrier();
	}
#endif
}
