// Convolutions whose channels each stand alone. A subgroup owns a channel of a
// sample and goes through it by blocks of ROWS rows and as many columns as it has
// lanes: what a lane loads serves all of its rows that see it. For the filters, it
// owns a channel of all samples, and adds up what its lanes have at the end; to what
// there is of earlier samples, if those were seen by another dispatch.
//
// Place o sees o·step + t·dilation + shift by tap t, of each axis. All taps are
// constants, so that sums and filters have places of their own in registers.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;
layout(constant_id = 1) const uint FILTERS = 0; // compute those, from the places in B; 2: on from those in C
layout(constant_id = 2) const uint BIAS = 0;
layout(constant_id = 3) const int TAPS_Y = 1;
layout(constant_id = 4) const int TAPS_X = 1;
layout(constant_id = 5) const int STEP_Y = 1;
layout(constant_id = 6) const int STEP_X = 1;
layout(constant_id = 7) const int DILATION_Y = 1;
layout(constant_id = 8) const int DILATION_X = 1;

layout(push_constant) uniform Push {
	int groups, samples, channels;
	int sizeY, sizeX;             // of what is seen
	int rows, columns;            // of places
	int shiftY, shiftX;
	int from, line, place, plane; // places in memory: the first, and from one to the next
	int tap, tapY, tapX, taps;    // filters: the first, and from one to the next
};

layout(binding = 0) buffer Z { float z[]; };          // what is computed
layout(binding = 1) readonly buffer A { float a[]; }; // what is seen
layout(binding = 2) readonly buffer B { float b[]; }; // filters, or places
layout(binding = 3) readonly buffer C { float bias[]; };

#define ROWS 7
#define MOST 7

// The row that the first row's taps see highest, and the rows that all see.
const int FAR = DILATION_Y * (TAPS_Y - 1), HIGHEST = FAR < 0 ? FAR : 0;
const int SEEN = (ROWS - 1) * STEP_Y + (FAR < 0 ? -FAR : FAR) + 1;

void main() {
	int i = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x), lane = int(gl_LocalInvocationIndex);
	if (i >= groups) return;
	float filters[MOST][MOST], sums[ROWS];
	int channel = i % channels, end = FILTERS != 0 ? groups * samples : i + 1;
	[[unroll]] for (int ky = 0; ky < TAPS_Y; ky++)
		[[unroll]] for (int kx = 0; kx < TAPS_X; kx++) filters[ky][kx] = FILTERS != 0 ? 0 : b[channel * taps + tap + ky * tapY + kx * tapX];
	for (int image = i; image < end; image += channels) {
		for (int row = 0; row < rows; row += ROWS) {
			for (int block = 0; block < columns; block += int(LOCAL)) {
				int column = block + lane, own = from + image * plane + row * line + column * place;
				[[unroll]] for (int v = 0; v < ROWS; v++) {
					bool there = FILTERS != 0 && row + v < rows && column < columns;
					sums[v] = there ? b[own + v * line] : 0;
				}
				int seen = image * sizeY * sizeX, y0 = row * STEP_Y + shiftY + HIGHEST, x0 = column * STEP_X + shiftX;
				[[unroll]] for (int r = 0; r < SEEN; r++) {
					bool inY = y0 + r >= 0 && y0 + r < sizeY;
					[[unroll]] for (int kx = 0; kx < TAPS_X; kx++) {
						int x = x0 + kx * DILATION_X;
						bool meets = inY && x >= 0 && x < sizeX;
						float f = a[meets ? seen + (y0 + r) * sizeX + x : 0];
						f = meets ? f : 0;
						// No early exits: a loop with one is not unrolled.
						[[unroll]] for (int ky = 0; ky < TAPS_Y; ky++) {
							int far = r + HIGHEST - ky * DILATION_Y, v = far / STEP_Y;
							if (v * STEP_Y == far && v >= 0 && v < ROWS) {
								if (FILTERS != 0) filters[ky][kx] = fma(f, sums[v], filters[ky][kx]);
								else sums[v] = fma(f, filters[ky][kx], sums[v]);
							}
						}
					}
				}
				[[unroll]] for (int v = 0; v < ROWS; v++) {
					if (FILTERS == 0 && row + v < rows && column < columns)
						z[own + v * line] = sums[v] + (BIAS != 0 ? bias[channel] : 0);
				}
			}
		}
	}
	if (FILTERS != 0)
		[[unroll]] for (int ky = 0; ky < TAPS_Y; ky++)
			[[unroll]] for (int kx = 0; kx < TAPS_X; kx++) {
				float all = subgroupAdd(filters[ky][kx]);
				if (FILTERS == 2) all += bias[channel * taps + tap + ky * tapY + kx * tapX];
				if (lane == 0) z[channel * taps + tap + ky * tapY + kx * tapX] = all;
			}
}
