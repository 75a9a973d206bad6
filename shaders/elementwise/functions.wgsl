// The elementwise operations, one line each. volta/devices/gpu/generate.py writes kernels around the lines they need.
// The ending names the operands: _f float (arithmetic in float32), _i signed integers, _u uint8 (results are cut to 8 bits
// on storing), _b bool (0 or 1); and, T standing for the type, _w whole numbers (_i and _u), _m numbers (all but bool), _n any.
// A result `bool` makes a bool tensor.
// Float operations take NaN and infinity as PyTorch does; see the prelude for what WGSL would do by itself.
alias T = f32;

fn neg_f(x: f32) -> f32 { return -x; }
fn neg_i(x: i32) -> i32 { return -x; }
fn neg_u(x: u32) -> u32 { return 0u - x; }
fn abs_f(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu); }
fn abs_i(x: i32) -> i32 { return abs(x); }
fn abs_u(x: u32) -> u32 { return x; }
fn sign_f(x: f32) -> f32 { return select(0.0, 1.0, x > 0.0) - select(0.0, 1.0, x < 0.0); }
fn sign_i(x: i32) -> i32 { return sign(x); }
fn sign_u(x: u32) -> u32 { return min(x, 1u); }
fn sign_b(x: u32) -> u32 { return x; }
fn reciprocal_f(x: f32) -> f32 { return 1.0 / x; }
fn sqrt_f(x: f32) -> f32 { return sqrt_nan(x); }
fn root_f(x: f32) -> f32 { return sqrt_nan(x); }
fn rsqrt_f(x: f32) -> f32 { return 1.0 / sqrt_nan(x); }
fn exp_f(x: f32) -> f32 { return exp_accurate(x); }
fn exp2_f(x: f32) -> f32 { return exp2_accurate(x); }
fn expm1_f(x: f32) -> f32 { return expm1_accurate(x); }
fn log_f(x: f32) -> f32 { return log_accurate(x); }
fn log2_f(x: f32) -> f32 { return log2_accurate(x); }
fn log10_f(x: f32) -> f32 { return log2_accurate(x) * 0.30103; }
fn log1p_f(x: f32) -> f32 { return log1p_accurate(x); }
fn sin_f(x: f32) -> f32 { return sin_accurate(x); }
fn cos_f(x: f32) -> f32 { return cos_accurate(x); }
fn tan_f(x: f32) -> f32 { return sin_accurate(x) / cos_accurate(x); }
fn tanh_f(x: f32) -> f32 { return tanh_accurate(x); }
fn sigmoid_f(x: f32) -> f32 { return sigmoid_accurate(x); }
fn erf_f(x: f32) -> f32 { return erf_accurate(x); }
fn relu_f(x: f32) -> f32 { return relu_nan(x); }
fn positive_part_f(x: f32) -> f32 { return select(0.0, x, is_positive(x)); }
fn relu_w(x: T) -> T { return max(x, T(0)); }
fn selu_f(x: f32) -> f32 { return select(1.7580993408473766 * expm1_accurate(x), 1.0507009873554805 * x, is_positive(x)); }
fn gelu_f(x: f32) -> f32 { return x * normal_cdf(x); }
fn gelu_tanh_f(x: f32) -> f32 { return x * gelu_tanh_factor(x); }
fn silu_f(x: f32) -> f32 { return x * sigmoid_accurate(x); }
fn floor_w(x: T) -> T { return x; }
fn floor_f(x: f32) -> f32 { return floor(x); }
fn ceil_w(x: T) -> T { return x; }
fn ceil_f(x: f32) -> f32 { return ceil(x); }
fn round_w(x: T) -> T { return x; }
fn round_f(x: f32) -> f32 { return round(x); }
fn trunc_w(x: T) -> T { return x; }
fn trunc_f(x: f32) -> f32 { return trunc(x); }
fn angle_f(x: f32) -> f32 { return select(select(0.0, 3.14159265, x < 0.0), x, is_nan(x)); }
fn frac_f(x: f32) -> f32 { return select(x - trunc(x), nan(), !is_finite(x)); }
fn bitwise_not_w(x: T) -> T { return ~x; }
fn bitwise_not_b(x: u32) -> u32 { return x ^ 1u; }
fn logical_not_n(x: T) -> bool { return x == T(0); }
fn isnan_f(x: f32) -> bool { return is_nan(x); }
fn isnan_n(x: T) -> bool { return false; }
fn isinf_f(x: f32) -> bool { return is_inf(x); }
fn isinf_n(x: T) -> bool { return false; }
fn isfinite_f(x: f32) -> bool { return is_finite(x); }
fn isfinite_n(x: T) -> bool { return true; }
fn asin_f(x: f32) -> f32 { return asin_accurate(x); }
fn acos_f(x: f32) -> f32 { return acos_accurate(x); }
fn atan_f(x: f32) -> f32 { return atan_accurate(x); }
fn sinh_f(x: f32) -> f32 { return sinh_accurate(x); }
fn cosh_f(x: f32) -> f32 { return cosh_accurate(x); }
fn asinh_f(x: f32) -> f32 { return asinh_accurate(x); }
fn acosh_f(x: f32) -> f32 { return acosh_accurate(x); }
fn atanh_f(x: f32) -> f32 { return atanh_accurate(x); }
fn erfc_f(x: f32) -> f32 { return erfc_accurate(x); }
fn erfinv_f(x: f32) -> f32 { return erfinv_accurate(x); }
fn logit_f(x: f32) -> f32 { return select(log_accurate(div_f32(x, 1.0 - x)), inf(), x == 1.0); }
fn sinc_f(x: f32) -> f32 { return sinc_accurate(x); }
fn lgamma_f(x: f32) -> f32 { return lgamma_accurate(x); }
fn digamma_f(x: f32) -> f32 { return digamma_accurate(x); }
fn erfcx_f(x: f32) -> f32 { return erfcx_accurate(x); }
fn ndtr_f(x: f32) -> f32 { return select(normal_cdf(x), x, is_nan(x)); }
fn ndtri_f(x: f32) -> f32 { return ndtri_accurate(x); }
fn log_ndtr_f(x: f32) -> f32 { return log_ndtr_accurate(x); }
fn entr_f(x: f32) -> f32 { return entr_accurate(x); }
fn i0_f(x: f32) -> f32 { return bessel_i(x, 0.0, false); }
fn i1_f(x: f32) -> f32 { return bessel_i(x, 1.0, false); }
fn i0e_f(x: f32) -> f32 { return bessel_i(x, 0.0, true); }
fn i1e_f(x: f32) -> f32 { return bessel_i(x, 1.0, true); }
fn bessel_j0_f(x: f32) -> f32 { return bessel_j(x, 0.0); }
fn bessel_j1_f(x: f32) -> f32 { return bessel_j(x, 1.0); }
fn bessel_y0_f(x: f32) -> f32 { return bessel_y(x, 0.0); }
fn bessel_y1_f(x: f32) -> f32 { return bessel_y(x, 1.0); }
fn modified_bessel_k0_f(x: f32) -> f32 { return bessel_k(x, 0.0, false); }
fn modified_bessel_k1_f(x: f32) -> f32 { return bessel_k(x, 1.0, false); }
fn scaled_modified_bessel_k0_f(x: f32) -> f32 { return bessel_k(x, 0.0, true); }
fn scaled_modified_bessel_k1_f(x: f32) -> f32 { return bessel_k(x, 1.0, true); }
fn airy_ai_f(x: f32) -> f32 { return airy_ai_accurate(x); }
fn spherical_bessel_j0_f(x: f32) -> f32 { return spherical_bessel(x); }
fn frexp_mantissa_f(x: f32) -> f32 { return bitcast<f32>(mantissa_and_exponent(x).x); }
fn frexp_exponent_f(x: f32) -> f32 { return f32(mantissa_and_exponent(x).y); }
fn signbit_f(x: f32) -> bool { return is_negative(x); }
fn signbit_n(x: T) -> bool { return x < T(0); }
fn hardsigmoid_f(x: f32) -> f32 { return min_nan(max_nan(x + 3.0, 0.0), 6.0) / 6.0; }
fn hardswish_f(x: f32) -> f32 { return x * (min_nan(max_nan(x + 3.0, 0.0), 6.0) / 6.0); }
fn logsigmoid_f(x: f32) -> f32 { return -softplus_accurate(-x); }
fn mish_f(x: f32) -> f32 { return x * mish_parts(x).x; }

fn relu_grad_f(g: f32, y: f32) -> f32 { return select(g, 0.0, not_positive(y)); }
fn sigmoid_grad_f(g: f32, y: f32) -> f32 { return g * (y * (1.0 - y)); }
fn tanh_grad_f(g: f32, y: f32) -> f32 { return g * (1.0 - y * y); }
fn reciprocal_grad_f(g: f32, y: f32) -> f32 { return -g * y * y; }
fn sqrt_grad_f(g: f32, y: f32) -> f32 { return g * 0.5 / y; }
fn rsqrt_grad_f(g: f32, y: f32) -> f32 { return g * -0.5 * y * y * y; }
fn root_grad_f(g: f32, y: f32) -> f32 { return select(g * 0.5 / y, 0.0, y == 0.0); }
fn gelu_grad_f(g: f32, x: f32) -> f32 { return g * gelu_slope(x); }
fn sinc_grad_f(g: f32, x: f32) -> f32 { return g * sinc_slope(x); }
fn logit_grad_f(g: f32, x: f32) -> f32 { return select(nan(), div_f32(g, x * (1.0 - x)), !is_nan(x) && x >= 0.0 && x <= 1.0); }
fn log_ndtr_grad_f(g: f32, x: f32) -> f32 { return g * log_ndtr_slope(x); }
fn gelu_tanh_grad_f(g: f32, x: f32) -> f32 { return g * gelu_tanh_slope(x); }
fn silu_grad_f(g: f32, x: f32) -> f32 { return g * silu_slope(x); }
fn leaky_relu_grad_f(g: f32, x: f32, slope: f32) -> f32 { return select(g * slope, g, is_positive(x)); }
fn elu_grad_f(g: f32, x: f32, alpha: f32, inner: f32) -> f32 { return g * select(1.0, alpha * inner * exp_accurate(x * inner), not_positive(x)); }
fn abs_grad_f(g: f32, x: f32) -> f32 { return g * (select(0.0, 1.0, x > 0.0) - select(0.0, 1.0, x < 0.0)); }
fn softsign_f(x: f32) -> f32 { return div_f32(x, 1.0 + abs(x)); }
fn softsign_grad_f(g: f32, x: f32) -> f32 { return select(nan(), g / ((1.0 + abs(x)) * (1.0 + abs(x))), is_finite(x)); }
fn clamp_grad_f(g: f32, x: f32, low: f32, high: f32) -> f32 { return select(0.0, g, x >= low && x <= high); }
fn hardtanh_grad_f(g: f32, x: f32, low: f32, high: f32) -> f32 { return select(g, 0.0, !is_nan(x) && (x <= low || x >= high)); }
fn shrink_grad_f(g: f32, x: f32, low: f32, high: f32) -> f32 { return select(g, 0.0, !is_nan(x) && x >= low && x <= high); }
fn hardsigmoid_grad_f(g: f32, x: f32) -> f32 { return select(0.0, g / 6.0, !is_nan(x) && abs(x) < 3.0); }
fn hardswish_grad_f(g: f32, x: f32) -> f32 { return select(g * hardswish_slope(x), 0.0, !is_nan(x) && x <= -3.0); }
fn softplus_grad_f(g: f32, x: f32, beta: f32, limit: f32) -> f32 { return g * select(sigmoid_accurate(x * beta), 1.0, exceeds(x * beta, limit)); }
fn mish_grad_f(g: f32, x: f32) -> f32 { return g * mish_parts(x).y; }

fn add_n(x: T, y: T) -> T { return x + y; }
fn add_b(x: u32, y: u32) -> u32 { return x | y; }
fn sub_m(x: T, y: T) -> T { return x - y; }
fn mul_n(x: T, y: T) -> T { return x * y; }
fn div_f(x: f32, y: f32) -> f32 { return div_f32(x, y); }
fn pow_f(x: f32, y: f32) -> f32 { return pow_torch(x, y); }
fn pow_i(x: i32, y: i32) -> i32 { return power_i32(x, y); }
fn pow_u(x: u32, y: u32) -> u32 { return u32(power_i32(i32(x), i32(y))); }
fn xlogy_f(x: f32, y: f32) -> f32 { return select(x * log_accurate(y), 0.0, x == 0.0 && !is_nan(y)); }
fn bce_f(x: f32, y: f32) -> f32 { return -(y * max_nan(log_accurate(x), -100.0) + (1.0 - y) * max_nan(log1p_accurate(-x), -100.0)); }
fn bce_grad_f(g: f32, x: f32, y: f32) -> f32 { return div_f32(g * (x - y), max_nan((1.0 - x) * x, 1e-12)); }
fn logistic_loss_f(x: f32, y: f32) -> f32 { return x * (select(0.0, 1.0, x > 0.0) - y) + far_side_loss(x, y); }
fn logistic_loss_grad_f(g: f32, x: f32, y: f32) -> f32 { return g * (sigmoid_accurate(x) - y); }
fn absolute_difference_f(x: f32, y: f32) -> f32 { return abs(x - y); }
fn absolute_difference_grad_f(g: f32, x: f32, y: f32) -> f32 { return g * (select(0.0, 1.0, x > y) - select(0.0, 1.0, x < y)); }
fn squared_difference_f(x: f32, y: f32) -> f32 { return (x - y) * (x - y); }
fn squared_difference_grad_f(g: f32, x: f32, y: f32) -> f32 { return 2.0 * g * (x - y); }
fn wrapped_w(x: T, n: T) -> T { return min(max(select(x, x + n, x < T(0)), T(0)), n - T(1)); }
fn huber_f(x: f32, y: f32, limit: f32) -> f32 { let d = abs(x - y); return select(limit * (d - 0.5 * limit), 0.5 * d * d, d <= limit); }
fn huber_grad_f(g: f32, x: f32, y: f32, limit: f32) -> f32 { return g * min_nan(max_nan(x - y, -limit), limit); }
fn cosine_loss_f(x: f32, t: f32, margin: f32) -> f32 { return select(select(0.0, max_nan(x - margin, 0.0), t == -1.0), 1.0 - x, t == 1.0); }
fn cosine_loss_grad_f(g: f32, x: f32, t: f32, margin: f32) -> f32 { return select(select(0.0, g, t == -1.0 && x >= margin), -g, t == 1.0); }
fn remainder_f(x: f32, y: f32) -> f32 { return remainder_f32(x, y); }
fn remainder_i(x: i32, y: i32) -> i32 { return remainder_i32(x, y); }
fn remainder_u(x: u32, y: u32) -> u32 { return remainder_u32(x, y); }
fn floor_divide_f(x: f32, y: f32) -> f32 { return floor_div_f32(x, y); }
fn floor_divide_i(x: i32, y: i32) -> i32 { return floor_div_i32(x, y); }
fn floor_divide_u(x: u32, y: u32) -> u32 { return select(x / y, 0u, y == 0u); }
fn fmod_f(x: f32, y: f32) -> f32 { return fmod_accurate(x, y); }
fn fmod_i(x: i32, y: i32) -> i32 { return fmod_i32(x, y); }
fn fmod_u(x: u32, y: u32) -> u32 { return remainder_u32(x, y); }
fn div_trunc_f(x: f32, y: f32) -> f32 { return trunc_quotient(x, y); }
fn div_trunc_w(x: T, y: T) -> T { return select(x / y, T(0), y == T(0)); }
fn maximum_f(x: f32, y: f32) -> f32 { return max_nan(x, y); }
fn maximum_n(x: T, y: T) -> T { return max(x, y); }
fn minimum_f(x: f32, y: f32) -> f32 { return min_nan(x, y); }
fn minimum_n(x: T, y: T) -> T { return min(x, y); }
fn clamp_min_f(x: f32, low: f32) -> f32 { return max_nan(x, low); }
fn clamp_min_n(x: T, low: T) -> T { return max(x, low); }
fn clamp_max_f(x: f32, high: f32) -> f32 { return min_nan(x, high); }
fn clamp_max_n(x: T, high: T) -> T { return min(x, high); }
fn eq_n(x: T, y: T) -> bool { return x == y; }
fn ne_n(x: T, y: T) -> bool { return !(x == y); }
fn lt_n(x: T, y: T) -> bool { return x < y; }
fn le_n(x: T, y: T) -> bool { return x <= y; }
fn gt_n(x: T, y: T) -> bool { return x > y; }
fn ge_n(x: T, y: T) -> bool { return x >= y; }
fn logical_and_n(x: T, y: T) -> bool { return !(x == T(0)) && !(y == T(0)); }
fn logical_or_n(x: T, y: T) -> bool { return !(x == T(0)) || !(y == T(0)); }
fn logical_xor_n(x: T, y: T) -> bool { return (x == T(0)) != (y == T(0)); }
fn bitwise_and_w(x: T, y: T) -> T { return x & y; }
fn bitwise_and_b(x: u32, y: u32) -> u32 { return x & y; }
fn bitwise_or_w(x: T, y: T) -> T { return x | y; }
fn bitwise_or_b(x: u32, y: u32) -> u32 { return x | y; }
fn bitwise_xor_w(x: T, y: T) -> T { return x ^ y; }
fn bitwise_xor_b(x: u32, y: u32) -> u32 { return x ^ y; }
fn atan2_f(y: f32, x: f32) -> f32 { return atan2_accurate(y, x); }
fn hypot_f(x: f32, y: f32) -> f32 { return hypot_accurate(x, y); }
fn copysign_f(x: f32, y: f32) -> f32 { return with_sign(x, y); }
fn nextafter_f(x: f32, y: f32) -> f32 { return neighbour(x, y); }
fn ldexp_f(x: f32, n: f32) -> f32 { return times_power(x, n); }
fn xlog1py_f(x: f32, y: f32) -> f32 { return select(x * log1p_accurate(y), 0.0, x == 0.0 && !is_nan(y)); }
fn zeta_f(s: f32, q: f32) -> f32 { return zeta_accurate(s, q); }
fn igamma_f(x: f32, y: f32) -> f32 { return incomplete_gamma(x, y, -1.0); }
fn igammac_f(x: f32, y: f32) -> f32 { return incomplete_gamma(x, y, 1.0); }
fn chebyshev_polynomial_t_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, x, n, x); }
fn chebyshev_polynomial_u_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, x, n, 2.0 * x); }
fn chebyshev_polynomial_v_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, x, n, 2.0 * x - 1.0); }
fn chebyshev_polynomial_w_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, x, n, 2.0 * x + 1.0); }
fn shifted_chebyshev_polynomial_t_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, 2.0 * x - 1.0, n, 2.0 * x - 1.0); }
fn shifted_chebyshev_polynomial_u_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, 2.0 * x - 1.0, n, 2.0 * (2.0 * x - 1.0)); }
fn shifted_chebyshev_polynomial_v_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, 2.0 * x - 1.0, n, 2.0 * (2.0 * x - 1.0) - 1.0); }
fn shifted_chebyshev_polynomial_w_f(x: f32, n: f32) -> f32 { return polynomial(CHEBYSHEV, 2.0 * x - 1.0, n, 2.0 * (2.0 * x - 1.0) + 1.0); }
fn hermite_polynomial_h_f(x: f32, n: f32) -> f32 { return polynomial(HERMITE_H, x, n, 2.0 * x); }
fn hermite_polynomial_he_f(x: f32, n: f32) -> f32 { return polynomial(HERMITE_HE, x, n, x); }
fn laguerre_polynomial_l_f(x: f32, n: f32) -> f32 { return polynomial(LAGUERRE, x, n, 1.0 - x); }
fn legendre_polynomial_p_f(x: f32, n: f32) -> f32 { return polynomial(LEGENDRE, x, n, x); }
fn logaddexp_f(x: f32, y: f32) -> f32 { return logaddexp_accurate(x, y); }
fn logaddexp2_f(x: f32, y: f32) -> f32 { return logaddexp2_accurate(x, y); }
fn heaviside_f(x: f32, y: f32) -> f32 { return select(select(0.0, 1.0, is_positive(x)), y, !is_nan(x) && x == 0.0); }
fn heaviside_n(x: T, y: T) -> T { return select(T(x > T(0)), y, x == T(0)); }
fn fmax_f(x: f32, y: f32) -> f32 { return select(max_nan(x, y), select(x, y, is_nan(x)), is_nan(x) || is_nan(y)); }
fn fmax_n(x: T, y: T) -> T { return max(x, y); }
fn fmin_f(x: f32, y: f32) -> f32 { return select(min_nan(x, y), select(x, y, is_nan(x)), is_nan(x) || is_nan(y)); }
fn fmin_n(x: T, y: T) -> T { return min(x, y); }
fn gcd_i(x: i32, y: i32) -> i32 { return i32(gcd_u32(size_i32(x), size_i32(y))); }
fn gcd_u(x: u32, y: u32) -> u32 { return gcd_u32(x, y); }
fn lcm_i(x: i32, y: i32) -> i32 { return i32(lcm_u32(size_i32(x), size_i32(y))); }
fn lcm_u(x: u32, y: u32) -> u32 { return lcm_u32(x, y); }
fn bitwise_left_shift_i(x: i32, y: i32) -> i32 { return i32(shift_left(u32(x), y, 32)); }
fn bitwise_left_shift_u(x: u32, y: u32) -> u32 { return shift_left(x, i32(y), 8); }
fn bitwise_right_shift_i(x: i32, y: i32) -> i32 { return shift_right(x, y); }
fn bitwise_right_shift_u(x: u32, y: u32) -> u32 { return u32(shift_right(i32(x), i32(y))); }
fn leaky_relu_f(x: f32, slope: f32) -> f32 { return select(x * slope, x, is_positive(x)); }

fn poisson_f(x: f32, u: f32, v: f32) -> f32 { return count_of(-1.0, x, u, v); }
fn binomial_f(n: f32, x: f32, u: f32, v: f32) -> f32 { return binomial_number(n, x, u, v); }
fn where_n(c: u32, x: T, y: T) -> T { return select(y, x, c != 0u); }
fn mulacc_m(x: T, y: T, z: T) -> T { return x * y + z; }
fn add_product_m(x: T, y: T, z: T, w: T) -> T { return x + w * y * z; }
fn joined_w(x: T, n: T, y: T, m: T) -> T { return min(max(select(x, x + n, x < T(0)), T(0)), n - T(1)) * m + min(max(select(y, y + m, y < T(0)), T(0)), m - T(1)); }
fn add_quotient_f(x: f32, y: f32, z: f32, w: f32) -> f32 { return x + rounded_first(div_f32(w * y, z), w); }
fn nan_to_num_f(x: f32, v: f32, largest: f32) -> f32 { return select(clamp(x, -largest, largest), v, is_nan(x)); }
fn lerp_f(x: f32, y: f32, w: f32) -> f32 { return select(y, x, abs(w) < 0.5) + select(w - 1.0, w, abs(w) < 0.5) * (y - x); }
fn clamp_f(x: f32, low: f32, high: f32) -> f32 { return min_nan(max_nan(x, low), high); }
fn clamp_w(x: T, low: T, high: T) -> T { return min(max(x, low), high); }
fn threshold_f(x: f32, limit: f32, value: f32) -> f32 { return select(x, value, !is_nan(x) && x <= limit); }
fn threshold_n(x: T, limit: T, value: T) -> T { return select(x, value, x <= limit); }
fn attention_slopes_f(score: f32, product: f32, mask: f32, top: f32, factor: f32, delta: f32, scale: f32) -> f32 { return exp2_accurate(fma(mask, LOG2_E, score * (scale * LOG2_E)) - top) * factor * (product - delta); }
fn batch_norm_given_f(x: f32, mean: f32, variance: f32, weight: f32, bias: f32, eps: f32) -> f32 { return (x - mean) / sqrt(variance + eps) * weight + bias; }
fn elu_f(x: f32, alpha: f32, inner: f32) -> f32 { return select(alpha * expm1_accurate(x * inner), x, is_positive(x)); }
fn hardshrink_f(x: f32, limit: f32) -> f32 { return select(x, 0.0, !is_nan(x) && abs(x) <= limit); }
fn softshrink_f(x: f32, limit: f32) -> f32 { return select(select(select(0.0, x, is_nan(x)), x + limit, !is_nan(x) && x < -limit), x - limit, exceeds(x, limit)); }
fn hardtanh_f(x: f32, low: f32, high: f32) -> f32 { return select(select(x, high, exceeds(x, high)), low, !is_nan(x) && x < low); }
fn softplus_f(x: f32, beta: f32, limit: f32) -> f32 { return select(softplus_accurate(x * beta) / beta, x, exceeds(x * beta, limit)); }
