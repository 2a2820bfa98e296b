// Rows that teams of invocations work on together: a row's team is a subgroup, so that a group has
// several; the whole group, whose subgroups add up through shared memory in their order; or one invocation,
// where neighbouring rows are neighbours in memory. A team holds its row in registers where that fits.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;
layout(constant_id = 1) const uint TEAM = 32; // invocations of a row: 1, a subgroup or LOCAL
layout(constant_id = 2) const uint HELD = 1;  // elements of an invocation; 0: a row is not held, and read again
layout(constant_id = 3) const uint LANES = 32; // of a subgroup
#define SLOTS (HELD == 0 ? 1 : HELD)

// Each element of the row, number i of n and k of those of the invocation.
#define EACH(k, i, n) [[unroll]] for (uint k = 0, i = me; HELD != 0 ? k < HELD : i < n; k++, i += TEAM)

shared float ofSubgroups[2][LOCAL / LANES];

uint row, me; // of the invocation, and its number in the team
uint turn = 0;

// join has an invocation find its row, of so many.
bool join(uint rows) {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
	row = TEAM == 1 ? group * LOCAL + gl_LocalInvocationIndex : TEAM == LOCAL ? group : group * gl_NumSubgroups + gl_SubgroupID;
	me = TEAM == 1 ? 0 : TEAM == LOCAL ? gl_LocalInvocationIndex : gl_SubgroupInvocationID;
	return row < rows;
}

// exchange hands the numbers of subgroups to all of a group. What was handed before last is no longer read.
void exchange(float v) {
	turn = 1 - turn;
	if (gl_SubgroupInvocationID == 0) ofSubgroups[turn][gl_SubgroupID] = v;
	barrier();
}

float added(float v) {
	if (TEAM == 1) return v;
	v = subgroupAdd(v);
	if (TEAM != LOCAL || LOCAL == LANES) return v;
	exchange(v);
	v = ofSubgroups[turn][0];
	for (uint i = 1; i < LOCAL / LANES; i++) v += ofSubgroups[turn][i];
	return v;
}

float greatest(float v) {
	if (TEAM == 1) return v;
	v = subgroupMax(v);
	if (TEAM != LOCAL || LOCAL == LANES) return v;
	exchange(v);
	v = ofSubgroups[turn][0];
	for (uint i = 1; i < LOCAL / LANES; i++) v = max(v, ofSubgroups[turn][i]);
	return v;
}

#define INFINITE uintBitsToFloat(0x7f800000)

float within(float v) { return v; }
float within(vec4 v) { return (v.x + v.y) + (v.z + v.w); }
float most(float v) { return v; }
float most(vec4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

// expect takes v into a running maximum and the sum of exponentials below it.
void expect(V v, inout float top, inout float sum) {
	float next = max(top, most(v));
	if (next > top) sum *= exp(top - next);
	if (next > -INFINITE) sum += within(exp(v - next));
	else if (isnan(within(v))) sum = within(v);
	top = next;
}

// expected is the maximum and sum of a team.
void expected(inout float top, inout float sum) {
	float mine = top;
	top = greatest(top);
	sum = added(mine == top ? sum : sum * exp(mine - top));
}
