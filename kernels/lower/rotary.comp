// Rows of one head each, whose pairs of elements are turned by the angle of the
// row's position. An invocation owns a pair, or one of the elements that stay.
#version 450

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint IDS = 0;   // positions are told
layout(constant_id = 1) const uint FOUR = 0;  // rows are [item, head, place], else [item, place, head]
layout(constant_id = 2) const uint TURNS = 0; // pairs are neighbours, else half a turned part apart

layout(push_constant) uniform Push { uint rows, head, half_, heads, seq, angles; };

layout(binding = 0) buffer Y { float y[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Cos { float cosines[]; };
layout(binding = 3) readonly buffer Sin { float sines[]; };
layout(binding = 4) readonly buffer Ids { uint ids[]; }; // two words each

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 64 + gl_LocalInvocationIndex;
	uint each = head - half_, row = i / each, k = i % each;
	if (row >= rows) return;
	uint at = row * head;
	if (k >= half_) {
		y[at + half_ + k] = x[at + half_ + k];
		return;
	}
	uint place = row / (heads * seq) * seq + (FOUR != 0 ? row % seq : row / heads % seq);
	if (IDS != 0) place = ids[2 * place];
	float co = uintBitsToFloat(0x7fc00000), si = co;
	if (place < angles) {
		co = cosines[place * half_ + k];
		si = sines[place * half_ + k];
	}
	uint p = at + (TURNS != 0 ? 2 * k : k), q = TURNS != 0 ? p + 1 : p + half_;
	float a = x[p], b = x[q];
	y[p] = co * a - si * b;
	y[q] = si * a + co * b;
}
