// Angles of many turns. They are computed with sums of two float32, (high, low): after a thousand radians one float32
// is off by 1e-4. T. J. Dekker, A floating-point technique for extending the available precision, 1971.

vec2 twoSum(float a, float b) {
	precise float s = a + b, t = s - a, low = (a - (s - t)) + (b - t);
	return vec2(s, low);
}

vec2 twoProduct(float a, float b) {
	precise float p = a * b, ca = 4097.0 * a, cb = 4097.0 * b;
	precise float ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
	precise float low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
	return vec2(p, low);
}

vec2 longSum(vec2 a, vec2 b) {
	vec2 s = twoSum(a.x, b.x);
	precise float low = s.y + (a.y + b.y);
	return twoSum(s.x, low);
}

vec2 longProduct(vec2 a, vec2 b) {
	vec2 p = twoProduct(a.x, b.x);
	precise float low = p.y + (a.x * b.y + a.y * b.x);
	return twoSum(p.x, low);
}

// 1/i! for i from 2 on.
const vec2 inverseFactorials[11] = vec2[11](vec2(0.5, 0.0), vec2(0.166666672, -4.96705388e-9),
	vec2(0.0416666679, -1.24176347e-9), vec2(0.00833333377, -4.34617203e-10), vec2(0.00138888892, -3.36310944e-11),
	vec2(0.000198412701, -2.72559687e-12), vec2(2.48015876e-5, -3.40699609e-13), vec2(2.75573188e-6, 3.79357122e-14),
	vec2(2.755732e-7, -7.57511221e-15), vec2(2.50521079e-8, 4.41762304e-16), vec2(2.08767559e-9, 1.10828391e-16));

// e^(u+v), for sums between -80 and 80.
vec2 longExponential(float u, float v) {
	vec2 x = twoSum(u, v);
	float n = floor(x.x * 1.44269504 + 0.5);
	x = longSum(x, vec2(-n * 0.693359375, 0.0)); // exact, as the factor has ten bits
	x = longSum(x, longProduct(vec2(n, 0.0), vec2(0.000212194442, -1.64659497e-12)));
	vec2 p = inverseFactorials[10];
	for (int i = 9; i >= 0; i--) p = longSum(longProduct(p, x), inverseFactorials[i]);
	p = longSum(longProduct(p, longProduct(x, x)), longSum(x, vec2(1.0, 0.0)));
	return p * pow2(int(n));
}

// scale·x·e^(u+v) modulo 2π, between -π and π.
float turn(float scale, float x, float u, float v) {
	if (!(abs(u + v) < 80.0)) return scale * x * exponential(u + v); // of no use
	vec2 turns = longProduct(longProduct(twoProduct(scale, x), longExponential(u, v)), vec2(0.159154937, 6.42063824e-9));
	precise float whole = floor(turns.x + 0.5), rest = (turns.x - whole) + turns.y;
	return rest * 6.28318531;
}
