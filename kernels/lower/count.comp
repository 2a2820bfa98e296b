// The number of the update, 64 bits in two words, and one more.
#version 450

layout(local_size_x = 1) in;
layout(binding = 0) buffer Next { uint next[]; };
layout(binding = 1) readonly buffer Last { uint last[]; };

void main() {
	uint low = last[0], carry;
	low = uaddCarry(low, 1, carry);
	uint high = last[1] + carry;
	next[0] = low;
	next[1] = high;
}
