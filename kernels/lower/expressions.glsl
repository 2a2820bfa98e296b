// What expressions of pointwise operators are made of; T is a float, or four of
// them with WIDE.
#ifdef WIDE
#define T vec4
#define BOOLS bvec4
#define gt greaterThan
#define ge greaterThanEqual
#define lt lessThan
#define le lessThanEqual
#define eq equal
#define ne notEqual
#else
#define T float
#define BOOLS bool
#define gt(x, y) ((x) > (y))
#define ge(x, y) ((x) >= (y))
#define lt(x, y) ((x) < (y))
#define le(x, y) ((x) <= (y))
#define eq(x, y) ((x) == (y))
#define ne(x, y) ((x) != (y))
#endif

// choose is x where condition holds, else y.
T choose(BOOLS condition, T x, T y) { return mix(y, x, condition); }

// tanh near 0 by a polynomial: drivers' own loses there.
T tanhOf(T x) {
	T s = x * x;
	T near = x + x * s * ((((-5.70498872745e-3 * s + 2.06390887954e-2) * s - 5.37397155531e-2) * s + 1.33314422036e-1) * s - 3.33332819422e-1);
	T far = T(1) - T(2) / (exp(T(2) * clamp(x, T(-15), T(15))) + T(1));
	return choose(lt(s, T(0.390625)), near, far) + (x - x);
}

// expm1 near 0 without what exp(x) − 1 loses.
T expm1Of(T x) {
	T near = x * (T(1) + x * (T(0.5) + x * (T(0.166666667) + x * (T(0.0416666667) + x * (T(0.00833333333) + x * T(0.00138888889))))));
	return choose(lt(abs(x), T(0.3)), near, exp(x) - T(1));
}

// log1p for x ≥ 0, by 2·artanh(x/(2+x)) near 0.
T log1pOf(T x) {
	T s = x / (T(2) + x), t = s * s;
	T near = T(2) * s * (T(1) + t * (T(0.333333333) + t * (T(0.2) + t * (T(0.142857143) + t * T(0.111111111)))));
	return choose(lt(x, T(0.4)), near, log(T(1) + x));
}

// upperTail is the chance that a normal number is above |x| (Abramowitz and
// Stegun 7.1.26); e is e^(−x²/2).
T upperTail(T x, out T e) {
	e = exp(T(-0.5) * x * x);
	T t = T(1) / (T(1) + T(0.23164189) * abs(x));
	return T(0.5) * e * t * ((((T(1.061405429) * t - T(1.453152027)) * t + T(1.421413741)) * t - T(0.284496736)) * t + T(0.254829592));
}

T normal(T x) {
	T e, q = upperTail(x, e);
	return choose(gt(x, T(0)), T(1) - q, q) + (x - x);
}

T normalSlope(T x) { return T(0.3989422804) * exp(T(-0.5) * x * x); }

T erfOf(T x) {
	T s = x * x, e, q = upperTail(x * T(1.41421356), e);
	T near = x * ((((((T(7.853861353e-5) * s - T(8.010193625e-4)) * s + T(5.188327686e-3)) * s - T(2.685381194e-2)) * s + T(1.128358515e-1)) * s - T(3.761262582e-1)) * s + T(1.128379166));
	return choose(lt(s, T(1)), near, sign(x) * (T(1) - T(2) * q) + (x - x));
}

T geluSlope(T x) { return normal(x) + x * normalSlope(x); }

T geluInner(T x) { return T(0.79788456) * (x + T(0.044715) * x * x * x); }

T tanhGelu(T x) { return T(0.5) * x * (T(1) + tanhOf(geluInner(x))); }

T tanhGeluSlope(T x) {
	T t = tanhOf(geluInner(x));
	return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * T(0.79788456) * (T(1) + T(0.134145) * x * x);
}

T sigmoidOf(T x) { return T(1) / (T(1) + exp(-x)); }

T greatest(T x, T y);

T softplusOf(T x) { return greatest(x, T(0)) + log1pOf(exp(-abs(x))); }

T mishSlope(T x) {
	T t = tanhOf(softplusOf(x));
	return t + x * (T(1) - t * t) * sigmoidOf(x);
}

// greatest and least keep what is no number.
T greatest(T x, T y) { return choose(ne(x, x), x, choose(ne(y, y), y, max(x, y))); }
T least(T x, T y) { return choose(ne(x, x), x, choose(ne(y, y), y, min(x, y))); }

// wave is sin(x) with turn 0 and cos(x) with 1, by polynomials around
// multiples of π/2: drivers' own may be off by 2⁻¹¹.
T wave(T x, float turn) {
	T k = roundEven(x * T(0.636619772));
	precise T r = ((x - k * T(1.5703125)) - k * T(4.83751297e-4)) - k * T(7.54978995e-8);
	T s = r * r;
	T sine = r + r * s * (T(-0.166666667) + s * (T(8.33333333e-3) + s * (T(-1.98412698e-4) + s * T(2.75573192e-6))));
	T cosine = T(1) - s * (T(0.5) - s * (T(4.16666667e-2) - s * (T(1.38888889e-3) - s * T(2.48015873e-5))));
	T quarter = mod(k + T(turn), T(4));
	T v = choose(eq(mod(quarter, T(2)), T(0)), sine, cosine);
	return choose(ge(quarter, T(2)), -v, v);
}

// atanOf brings x below tan π/8, by the angles π/4 and π/2, to a polynomial:
// drivers' own are good for 12 bits.
T atanOf(T x) {
	T size = abs(x);
	BOOLS far = gt(size, T(2.41421356)), mid = gt(size, T(0.414213562));
	T r = choose(far, T(-1) / size, choose(mid, (size - T(1)) / (size + T(1)), size));
	T s = r * r;
	T turn = r + r * s * (((T(8.05374449538e-2) * s - T(1.38776856032e-1)) * s + T(1.99777106478e-1)) * s - T(3.33329491539e-1));
	return sign(x) * (choose(far, T(1.57079633), choose(mid, T(0.785398163), T(0))) + turn) + (size - size) * choose(far, T(0), T(1));
}

T asinhOf(T x) {
	T size = abs(x);
	T near = log1pOf(size + size * size / (T(1) + sqrt(size * size + T(1))));
	return sign(x) * choose(gt(size, T(1e9)), log(size) + T(0.693147181), near);
}

// powOf takes what ONNX's Pow does: any base with a whole exponent, too.
T powOf(T x, T y) {
	T size = pow(abs(x), y);
	T odd = T(1) - T(2) * mod(abs(y), T(2));
	T whole = choose(eq(floor(y), y), choose(lt(x, T(0)), odd * size, size), T(0) / (x - x));
	T r = choose(lt(x, T(0)), whole, size);
	r = choose(eq(y, T(2)), x * x, r);
	r = choose(eq(y, T(3)), x * x * x, r);
	r = choose(eq(y, T(1)), x, r);
	return choose(eq(y, T(0)), T(1), r);
}
