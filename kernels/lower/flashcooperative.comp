// The forward pass of flash.comp, of factors that hold float16, by cooperative matrices: each subgroup has
// M queries, and they bring the rows of keys and values to the group's memory together. Scores and sums are float32; the
// probabilities that multiply the values are rounded to float16, and add up before they are.
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
layout(constant_id = 6) const uint SAFE = 0;
layout(constant_id = 7) const uint LOCAL = 32;
layout(constant_id = 8) const uint M = 8; // of a fragment: rows,
layout(constant_id = 9) const uint N = 8; // columns
layout(constant_id = 10) const uint K = 8; // and terms
layout(constant_id = 11) const uint TRANS_K = 0;
layout(constant_id = 12) const uint SUBGROUPS = 4; // of a group

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer Q { float q[]; };
layout(binding = 2) readonly buffer K_ { float k[]; };
layout(binding = 3) readonly buffer V { float v[]; };
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 6) buffer Lse { float lse[]; };

const uint ROWS = SUBGROUPS * M, STEP = 2 * N; // queries of a group, and keys at a time
const uint LINE = WIDE + 8, LINE_V = OUTS + 8, LINE_P = STEP + 8; // out of each other's banks
shared float16_t ofQueries[ROWS * LINE], ofKeys[STEP * LINE], ofValues[STEP * LINE_V], probable[ROWS * LINE_P];
shared float scores[ROWS * STEP], sums[ROWS * OUTS], down[ROWS];

#define INFINITE uintBitsToFloat(0x7f800000)

//flashscores.glsl
void main() {
	uint group = first + gl_WorkGroupID.x, me = gl_LocalInvocationIndex, lane = gl_SubgroupInvocationID;
	uint tiles = (queries + ROWS - 1) / ROWS, z = group / tiles, from = group % tiles * ROWS, mine = gl_SubgroupID * M;
	uint inQ = z * queries * width, inK = z / share * keys * width, inV = z / share * keys * outs;
	for (uint e = me; e < ROWS * WIDE; e += LOCAL) {
		uint r = e / WIDE, d = e % WIDE;
		ofQueries[r * LINE + d] = float16_t(from + r < queries && d < width ? q[inQ + (from + r) * width + d] : 0);
	}
	for (uint e = me; e < ROWS * OUTS; e += LOCAL) sums[e] = 0;
	float top = -INFINITE, total = 0; // of the row that an invocation has, where it has one
	uint query = from + mine + lane, last = min(query, queries - 1);
	uint begin = SKIPS != 0 && left >= 0 && from > uint(left) ? (from - left) / STEP * STEP : 0;
	uint end = SKIPS != 0 && right >= 0 ? min(keys, from + ROWS + right) : keys;
	for (uint row = begin; row < end; row += STEP) {
		barrier();
		for (uint e = me; e < STEP * WIDE; e += LOCAL) {
			uint r = TRANS_K != 0 ? e % STEP : e / WIDE, d = TRANS_K != 0 ? e / STEP : e % WIDE;
			ofKeys[r * LINE + d] = float16_t(row + r < keys && d < width ? k[TRANS_K != 0 ? inK + d * keys + row + r : inK + (row + r) * width + d] : 0);
		}
		for (uint e = me; e < STEP * OUTS; e += LOCAL) {
			uint r = e / OUTS, d = e % OUTS;
			ofValues[r * LINE_V + d] = float16_t(row + r < keys && d < outs ? v[inV + (row + r) * outs + d] : 0);
		}
		barrier();
		for (uint n = 0; n < STEP; n += N) {
			coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sum = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0);
			for (uint d = 0; d < WIDE; d += K) {
				coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> f;
				coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> g;
				coopMatLoad(f, ofQueries, mine * LINE + d, LINE, gl_CooperativeMatrixLayoutRowMajor);
				coopMatLoad(g, ofKeys, n * LINE + d, LINE, gl_CooperativeMatrixLayoutColumnMajor);
				sum = coopMatMulAdd(f, g, sum);
			}
			coopMatStore(sum, scores, mine * STEP + n, STEP, gl_CooperativeMatrixLayoutRowMajor);
		}
		barrier();
		if (lane < M) {
			uint at = (mine + lane) * STEP;
			float now = top;
			for (uint j = 0; j < STEP; j++) {
				float s = row + j < keys ? scored(scores[at + j], z, last, row + j) : -INFINITE;
				scores[at + j] = s;
				now = max(now, s);
			}
			// Where all are −∞ so far, they count from 0.
			float shift = max(now, -3e38), less = now == top ? 1 : exp(top - shift);
			total *= less;
			down[mine + lane] = less;
			top = now;
			for (uint j = 0; j < STEP; j++) {
				float p = exp(scores[at + j] - shift);
				total += p;
				probable[(mine + lane) * LINE_P + j] = float16_t(p);
			}
		}
		barrier();
		for (uint e = lane; e < M * OUTS; e += gl_SubgroupSize) sums[mine * OUTS + e] *= down[mine + e / OUTS];
		barrier();
		for (uint n = 0; n < OUTS; n += N) {
			coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sum;
			coopMatLoad(sum, sums, mine * OUTS + n, OUTS, gl_CooperativeMatrixLayoutRowMajor);
			for (uint j = 0; j < STEP; j += K) {
				coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> f;
				coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> g;
				coopMatLoad(f, probable, mine * LINE_P + j, LINE_P, gl_CooperativeMatrixLayoutRowMajor);
				coopMatLoad(g, ofValues, j * LINE_V + n, LINE_V, gl_CooperativeMatrixLayoutRowMajor);
				sum = coopMatMulAdd(f, g, sum);
			}
			coopMatStore(sum, sums, mine * OUTS + n, OUTS, gl_CooperativeMatrixLayoutRowMajor);
		}
	}
	bool lost = !(total > 0);
	if (lane < M) {
		down[mine + lane] = SAFE != 0 && lost ? -1 : total;
		if (query < queries) lse[z * queries + query] = SAFE != 0 && lost ? INFINITE : top + log(total);
	}
	barrier();
	for (uint e = lane; e < M * OUTS; e += gl_SubgroupSize) {
		uint r = mine + e / OUTS, d = e % OUTS;
		if (from + r < queries && d < outs) y[(z * queries + from + r) * outs + d] = SAFE != 0 && down[r] < 0 ? 0 : sums[r * OUTS + d] / down[r];
	}
}
