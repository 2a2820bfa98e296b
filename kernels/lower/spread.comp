// Lays out lines for a product: those of a matrix one behind another with room
// at their ends, so that each begins at an even place, or those that the taps of a
// convolution see of an image, with zeros where they see none. Element (row, x) of
// tap t is element (row, x)·step + t·dilation + shift of the image.
//
// There is a plane for each channel and tap. A group owns some rows of one, or all
// of those of some channels by one tap: where it looks is found out once, for
// divisions are slow. Rows lie one behind another, so lanes go on over their ends.
#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef PAIRS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 8;

layout(push_constant) uniform Push {
	uint groups, channels, rows, each; // each: rows of a group
	int whole, width;                // elements of a row, and with the room behind them
	uint batch[2];                   // the inner dims of the batch
	uint sx[3];                      // strides of the batch, outer first; the innermost is depth, too
	uint first, from;                // of the batch; where strides count from
	uint channel;                    // from a channel to the next
	int taps[3], step[3], dilation[3], shift[3], size[3], strides[3];
};

layout(binding = 1) readonly buffer X { float x[]; };
#ifdef PAIRS
layout(binding = 0) buffer Y2 { uint64_t y2[]; };
void store(uint to, float v, float w) { y2[to >> 1] = pack64(floatBitsToUint(vec2(v, w))); }
#else
layout(binding = 0) buffer Y { float y[]; };
void store(uint to, float v, float w) {
	y[to] = v;
	y[to + 1] = w;
}
#endif

#define TURNS 2 // that a lane takes at a time

void main() {
	uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	if (i >= groups) return;
	uint all = uint(taps[0] * taps[1] * taps[2]), chunks = (rows + each - 1) / each;
	uint some = max(1, each / rows), blocks = (channels + some - 1) / some;
	uint row = i % chunks * each, count = min(each, rows - row);
	i /= chunks;
	int tap = int(i % all);
	i /= all;
	uint c = i % blocks * some, end = min(c + some, channels), slot = i / blocks;
	uint z = slot + first, z2 = z % batch[1], z1 = z / batch[1] % batch[0], z0 = z / batch[1] / batch[0];
	int kx = tap % taps[2], ky = tap / taps[2] % taps[1], kz = tap / taps[2] / taps[1];
	int pz = int(z2) * step[0] + kz * dilation[0] + shift[0];
	bool inZ = pz >= 0 && pz < size[0];
	int startY = int(row) * step[1] + ky * dilation[1] + shift[1], startX = kx * dilation[2] + shift[2];
	// The elements of a row that lie in the image.
	int low = max(0, (step[2] - 1 - startX) / step[2]), high = min(whole, (size[2] - startX + step[2] - 1) / step[2]);
	// A lane's turn takes it so many rows and elements on.
	int turn = 2 * int(LOCAL), down = turn / width, across = turn % width;
	int nextY = step[1], jump = step[2] * strides[2], next = nextY * strides[1], wrap = next - width * jump;
	int mine = 2 * int(gl_LocalInvocationIndex), down0 = mine / width, e0 = mine - down0 * width, py0 = startY + down0 * nextY;
	uint at = from + z0 * sx[0] + z1 * sx[1] + z2 * sx[2] + c * channel + uint(pz * strides[0] + py0 * strides[1] + (e0 * step[2] + startX) * strides[2]);
	uint to = (((slot * channels + c) * all + uint(tap)) * rows + row) * uint(width);
	int elements = int(count) * width;
	for (; c < end; c++, at += channel, to += all * rows * uint(width)) {
		int e = e0, py = py0;
		uint near = at;
		for (int start = mine; start < elements; start += TURNS * turn) {
			[[unroll]] for (int t = 0; t < TURNS; t++) {
				bool there = start + t * turn < elements, inY = there && inZ && py >= 0 && py < size[1];
				bool is0 = inY && e >= low && e < high, is1 = inY && e + 1 >= low && e + 1 < high;
				float v = x[is0 ? near : 0], w = x[is1 ? near + uint(jump) : 0];
				if (there) store(to + uint(start + t * turn), is0 ? v : 0, is1 ? w : 0);
				e += across;
				py += down * nextY;
				near += uint(down * next + across * jump);
				if (e >= width) {
					e -= width;
					py += nextY;
					near += uint(wrap);
				}
			}
		}
	}
}
