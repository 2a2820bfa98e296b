// Where the lines begin that the taps of a convolution see: line p is of a channel,
// a row and a column of taps. Of the rows that they see, each step-th is in one
// plane.
#version 450

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
	uint n, rows, columns;
	int begin, dilation;              // rows that the first sees below the highest, and the next below it
	int step;                         // rows from one of a plane to the next
	int channel, turn, width, column; // elements from one to the next
};

layout(binding = 0) buffer Y { uint y[]; };

void main() {
	uint p = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	if (p >= n) return;
	int row = begin + int(p / columns % rows) * dilation;
	y[p] = uint(int(p / columns / rows) * channel + row % step * turn + row / step * width + int(p % columns) * column);
}
