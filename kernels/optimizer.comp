// The update rules, in place: p, and its states s and t. An invocation owns one
// element. Powers of the step's number come from logarithms that were taken in
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

float oneMinusExp(float x) {
	if (x > -0.3) return -x * (1 + x * (0.5 + x * (0.166666667 + x * (0.0416666667 + x * (0.00833333333 + x * 0.00138888889)))));
	return 1 - exp(x);
}

void main() {
	uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256 + gl_LocalInvocationIndex;
	if (i >= n || SCALE != 0 && scale[0] < 0) return;
	float lr = rate[0], now = float(stepped[0]);
	precise float x = p[i], d = g[i];
	if (SCALE != 0) d *= scale[0];
	if (RULE == 2 && OTHER != 0) x *= 1 - lr * decay;
	else d += decay * x;
	if (RULE == 1) {
		float b = stepped[0] <= 1 ? d : beta2 * s[i] + keep1 * d;
		s[i] = b;
		d = OTHER != 0 ? d + beta2 * b : b;
	} else if (RULE == 2) {
		float m = s[i] + keep1 * (d - s[i]);
		float v = beta2 * t[i] + keep2 * d * d;
		s[i] = m;
		t[i] = v;
		d = m / oneMinusExp(now * log1) / (sqrt(v / oneMinusExp(now * log2)) + epsilon);
	} else if (RULE == 3) {
		float sum = s[i] + d * d;
		s[i] = sum;
		d = d / (sqrt(sum) + epsilon) / (1 + (now - 1) * log1);
	}
	p[i] = x - lr * d;
}
