// The update rules, in place: p, and its states s and t. An invocation owns four
// neighbours. JOINED is for many parameters at once (graph.Kernel). Powers of the step's number come from logarithms that were taken in
// float64: 1 − βᵗ = −expm1(t·ln β).
#version 450

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RULE = 0;  // 0 sgd, 1 momentum, 2 adam, 3 adagrad
layout(constant_id = 1) const uint SCALE = 0; // there is a scale for gradients
layout(constant_id = 2) const uint OTHER = 0; // momentum: nesterov; adam: decoupled decay

layout(push_constant) uniform Push {
	uint n;
	float decay, epsilon;
	float keep1, beta2, keep2; // adam: 1 − β₁, β₂, 1 − β₂; momentum: 1 − dampening and μ in keep1 and beta2
	float log1, log2;          // adam: ln β₁, ln β₂; adagrad: lr_decay in log1
};

layout(binding = 0) buffer P { float p[]; };
layout(binding = 1) readonly buffer G { float g[]; };
layout(binding = 2) readonly buffer Rate { float rate[]; };
layout(binding = 3) readonly buffer Scale { float scale[]; };
layout(binding = 4) readonly buffer Step { uint stepped[]; };
layout(binding = 5) buffer S { float s[]; };
layout(binding = 6) buffer T { float t[]; };
layout(binding = 0) buffer P4 { vec4 p4[]; };
layout(binding = 1) readonly buffer G4 { vec4 g4[]; };
layout(binding = 5) buffer S4 { vec4 s4[]; };
layout(binding = 6) buffer T4 { vec4 t4[]; };
#ifdef JOINED
layout(binding = 7) readonly buffer Table { uint table[]; };
#endif

// Where this parameter's elements and numbers are.
uint atP = 0, atG = 0, atRate = 0, atScale = 0, atStep = 0, atS = 0, atT = 0;

float oneMinusExp(float x) {
	if (x > -0.3) return -x * (1 + x * (0.5 + x * (0.166666667 + x * (0.0416666667 + x * (0.00833333333 + x * 0.00138888889)))));
	return 1 - exp(x);
}

// update gives the parameter from x, its gradient d, and the states, which it
// changes.
vec4 update(vec4 was, vec4 grad, inout vec4 first, inout vec4 second) {
	float lr = rate[atRate], now = float(stepped[atStep]);
	precise vec4 x = was, d = grad;
	if (SCALE != 0) d *= scale[atScale];
	if (RULE == 2 && OTHER != 0) x *= 1 - lr * decay;
	else d += decay * x;
	if (RULE == 1) {
		vec4 b = stepped[atStep] <= 1 ? d : beta2 * first + keep1 * d;
		first = b;
		d = OTHER != 0 ? d + beta2 * b : b;
	} else if (RULE == 2) {
		first += keep1 * (d - first);
		second = beta2 * second + keep2 * d * d;
		d = first / oneMinusExp(now * log1) / (sqrt(second / oneMinusExp(now * log2)) + epsilon);
	} else if (RULE == 3) {
		first += d * d;
		d = d / (sqrt(first) + epsilon) / (1 + (now - 1) * log1);
	}
	return x - lr * d;
}

void main() {
	uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, count = n;
#ifdef JOINED
	// The row of the table whose groups this one is among.
	const uint row = 9;
	uint at = row * table[row * n + group];
	group -= table[at];
	count = table[at + 1];
	atP = table[at + 2];
	atG = table[at + 3];
	atRate = table[at + 4];
	atScale = table[at + 5];
	atStep = table[at + 6];
	atS = table[at + 7];
	atT = table[at + 8];
#endif
	uint i = group * 256 + gl_LocalInvocationIndex;
	if (4 * i >= count || SCALE != 0 && scale[atScale] < 0) return;
	vec4 first = vec4(0), second = vec4(0);
	if (4 * i + 4 <= count) {
		if (RULE != 0) first = s4[atS / 4 + i];
		if (RULE == 2) second = t4[atT / 4 + i];
		vec4 x = update(p4[atP / 4 + i], g4[atG / 4 + i], first, second);
		p4[atP / 4 + i] = x;
		if (RULE != 0) s4[atS / 4 + i] = first;
		if (RULE == 2) t4[atT / 4 + i] = second;
		return;
	}
	for (uint k = 4 * i; k < count; k++) {
		if (RULE != 0) first = vec4(s[atS + k]);
		if (RULE == 2) second = vec4(t[atT + k]);
		vec4 x = update(vec4(p[atP + k]), vec4(g[atG + k]), first, second);
		p[atP + k] = x.x;
		if (RULE != 0) s[atS + k] = first.x;
		if (RULE == 2) t[atT + k] = second.x;
	}
}
