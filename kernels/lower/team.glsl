// Rows that teams of invocations work on together: a row's team is a subgroup, so that a group has
// several; the whole group, whose subgroups add up through shared memory in their order; or one invocation,
// where neighbouring rows are neighbours in memory. A team holds its row in registers where that fits. Of a longer row (REST) it holds
// the beginning there, what follows in shared memory, and reads again what is left; sums do not depend on how much is where.
//
// A kernel says where element i of its row is: ROW(i); n is how many there are.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;
layout(constant_id = 1) const uint TEAM = 32; // invocations of a row: 1, a subgroup or LOCAL
layout(constant_id = 2) const uint HELD = 1;  // elements that an invocation has in registers
layout(constant_id = 3) const uint LANES = 32; // of a subgroup
layout(constant_id = 11) const uint STORED = 0; // elements of a row in shared memory
layout(constant_id = 12) const uint REST = 0;  // a row has more elements than registers hold
#define SLOTS (HELD == 0 ? 1 : HELD)
#define BEHIND (HELD * TEAM)

// EACH does something to each element of the row, number i, and k of those of the invocation, HELD where it has no register.
#define EACH(DO) \
	[[unroll]] for (uint k = 0, i = me; k < HELD; k++, i += TEAM) { DO(k, i) } \
	if (REST != 0) for (uint k = HELD, i = me + BEHIND; i < n; i += TEAM) { DO(k, i) }

// An invocation keeps its elements, and takes them back, from memory where there is no other place.
shared V stored[STORED == 0 ? 1 : STORED];
#define KEEP(registers, memory, k, i, e) \
	if (k < HELD) registers[min(k, SLOTS - 1)] = e; \
	else if (STORED != 0 && i - BEHIND < STORED) memory[i - BEHIND] = e;
#define BACK_FROM(registers, memory, k, i, other) (k < HELD ? registers[min(k, SLOTS - 1)] : STORED != 0 && i - BEHIND < STORED ? memory[i - BEHIND] : other)

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

// EXTENT finds the greatest element of a row, top, and what the exponentials below it add up to, sum, and keeps the elements, in held and stored.
// Elements in registers alone are gone through twice; of a longer row the sum goes on with each element.
#define EXTENT { \
		top = -INFINITE; \
		sum = 0; \
		EACH(TAKE_TOP) \
		if (REST != 0) expected(top, sum); \
		else { \
			top = greatest(top); \
			V terms = V(0); \
			EACH(TAKE_TERM) \
			sum = added(within(terms)); \
		} \
	}
#define TAKE_TOP(k, i) \
	V e = V(-INFINITE); \
	if (i < n) e = ROW(i); \
	KEEP(held, stored, k, i, e) \
	if (REST != 0) expect(e, top, sum); \
	else top = max(top, most(e));
#define TAKE_TERM(k, i) if (i < n) terms += exp(held[min(k, SLOTS - 1)] - top);

// watch takes an element into the mean of those seen and what their squares about it add up to.
void watch(V some, inout float known, inout float m, inout float away) {
	float middle = within(some) / float(WIDE), step = middle - m, next = known + float(WIDE);
	some -= middle;
	m += step * (float(WIDE) / next);
	away += within(some * some) + step * step * (known * float(WIDE) / next);
	known = next;
}

// watched joins what the invocations of a team have seen, of so many elements.
void watched(float count, float known, inout float m, inout float away) {
	float mine = m;
	m = added(mine * known) / count;
	away = added(away + (mine - m) * (mine - m) * known);
}

// STATISTICS finds the mean of so many elements, 0 where rows are not CENTRED, and what the squares about it add up to, and keeps the
// elements, in held and stored.
#define STATISTICS(count, mean, squares) { \
		float taken = 0, centre = 0, spread = 0; \
		V gathered = V(0); \
		EACH(TAKE_ELEMENT) \
		if (REST != 0) { \
			if (CENTRED != 0) watched(count, taken, centre, spread); \
			else spread = added(spread); \
		} else { \
			if (CENTRED != 0) centre = added(within(gathered)) / count; \
			gathered = V(0); \
			EACH(TAKE_SQUARE) \
			spread = added(within(gathered)); \
		} \
		mean = centre; \
		squares = spread; \
	}
#define TAKE_ELEMENT(k, i) \
	V e = V(0); \
	if (i < n) e = ROW(i); \
	KEEP(held, stored, k, i, e) \
	if (REST == 0) gathered += e; \
	else if (CENTRED != 0) watch(e, taken, centre, spread); \
	else spread += within(e * e);
#define TAKE_SQUARE(k, i) \
	V e = held[min(k, SLOTS - 1)] - centre; \
	if (i < n) gathered += e * e;
